#!/bin/sh
# The closed loop on a real GPU: what adaptive reaches against the link's limit and the baselines. Takes about 8 minutes.
# Flags: see closed_loop.sh --help.
exec python3 "$(dirname "$0")/closed_loop.py" "$@"
