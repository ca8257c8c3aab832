#!/bin/sh
# What a trace costs a training step on a real GPU, in interleaved pairs. Takes about 2 minutes. Flags: see tracing.sh --help.
exec python3 "$(dirname "$0")/tracing.py" "$@"
