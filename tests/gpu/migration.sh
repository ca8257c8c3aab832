#!/bin/sh
# Moving memory under a running program, on a real GPU: no page faults on spilled memory, launches as fast as idle, and wrong
# policy files harmless. Takes about 4 minutes. Flags: see migration.sh --help.
exec python3 "$(dirname "$0")/migration.py" "$@"
