#!/bin/sh
# Runs every GPU topic, one after the other; a failing one does not stop the next. Exit code 0 only if all passed.
# Usage: tests/gpu/run.sh [--build FOLDER] [--out FOLDER] [--mode MODE] [--only EXPRESSION]
here=$(dirname "$0")
failed=0
for topic in kernels probe foundations modes closed_loop streaming migration telemetry tracing soak frameworks; do
  echo "== $topic"
  "$here/$topic.sh" "$@" || failed=1
done
exit $failed
