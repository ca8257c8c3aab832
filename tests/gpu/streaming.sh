#!/bin/sh
# Streaming ahead of use on a real GPU: the same programs with a layout that stays as it is and with turns, side by side. Takes about
# 4 minutes. Flags: see streaming.sh --help.
exec python3 "$(dirname "$0")/streaming.py" "$@"
