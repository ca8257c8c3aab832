#!/bin/sh
# Telemetry on a real GPU: kernel times, whose CUPTI it is, faults, and what sampling costs. Takes about 6 minutes. Flags:
# see telemetry.sh --help.
exec python3 "$(dirname "$0")/telemetry.py" "$@"
