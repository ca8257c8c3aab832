#!/usr/bin/env bash
# Runs each fuzzer for SECONDS on a copy of its corpus, all at once, under AddressSanitizer and UndefinedBehaviorSanitizer.
# An input that breaks something is kept in build/fuzz/findings and named, and the exit status is 1: give it a name in
# tests/fuzz/corpus, where every build replays it, and mend the code.
# Usage: fuzz.sh SECONDS
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ $# -ne 1 || ! $1 =~ ^[1-9][0-9]*$ ]]; then
  echo "fuzz.sh: '${*:-}' is no number of seconds; usage: fuzz.sh SECONDS" >&2
  exit 2
fi
seconds=$1
build=build/fuzz
declare -A corpora=([trace_fuzzer]=trace [policy_file_fuzzer]=policy_file)

cmake --preset fuzz
cmake --build --preset fuzz -j "$(nproc)"

mkdir -p "$build/findings"
declare -A runs
for fuzzer in "${!corpora[@]}"; do
  corpus="$build/corpus/$fuzzer"
  mkdir -p "$corpus"  # what earlier runs found interesting is kept, and built upon
  cp tests/fuzz/corpus/"${corpora[$fuzzer]}"/* "$corpus/"
  "$build/bin/$fuzzer" -max_total_time="$seconds" -timeout=10 -print_final_stats=1 \
    -artifact_prefix="$build/findings/$fuzzer-" "$corpus" >"$build/$fuzzer.log" 2>&1 &
  runs[$fuzzer]=$!
done

status=0
for fuzzer in "${!corpora[@]}"; do
  if wait "${runs[$fuzzer]}"; then
    echo "$fuzzer: no finding in $seconds s, $(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$fuzzer.log") inputs"
    continue
  fi
  status=1
  tail -n 40 "$build/$fuzzer.log" >&2
  finding=$(sed -n "s/.*Test unit written to //p" "$build/$fuzzer.log" | tail -n 1)
  echo "$fuzzer: found an input that breaks it: ${finding:-none was written, see $build/$fuzzer.log}" >&2
  [[ -n $finding ]] && echo "again: $build/bin/$fuzzer $finding" >&2
done
exit $status
