#!/bin/sh
# Records the golden traces (tests/golden/README.md) from real programs on this GPU, each under half of its bare peak, into
# --out. Takes about 3 minutes. Flags: see record_golden.sh --help.
exec python3 "$(dirname "$0")/record_golden.py" "$@"
