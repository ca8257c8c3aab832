#!/bin/sh
# Side by side on one GPU: bare, Spillway's modes, explicit offload code. Flags: see run.sh --help.
exec python3 "$(dirname "$0")/run.py" "$@"
