#!/bin/sh
# Every policy mode against bare, at half of the bare peak, in turn. Usage: tests/gpu/modes.sh [--build FOLDER] [--out FOLDER]
exec python3 "$(dirname "$0")/modes.py" "$@"
