#!/bin/sh
# Everything at random at 1.3 times the budget, every result checked; then under memcheck. Takes about 9 minutes, or --seconds and one more.
# Flags: see soak.sh --help.
exec python3 "$(dirname "$0")/soak.py" "$@"
