#!/bin/sh
# The foundations on a real GPU: examples and PyTorch under half their peak memory, the same results, the budget kept, and
# no cost where everything fits. Takes about 6 minutes. Flags: see foundations.sh --help.
exec python3 "$(dirname "$0")/foundations.py" "$@"
