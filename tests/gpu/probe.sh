#!/bin/sh
# What `spillway probe` measures here, beside what cannot be otherwise. Usage: tests/gpu/probe.sh [--build FOLDER] [--out FOLDER]
exec python3 "$(dirname "$0")/probe.py" "$@"
