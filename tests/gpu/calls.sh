#!/bin/sh
# What to run next on a GPU, in the order of worth. Without a number it lists the calls; with one it runs that call's lines, one after the other.
# Usage: tests/gpu/calls.sh [NUMBER [--build FOLDER] [--out FOLDER] [--work FOLDER]]
# A line: the call, the seconds it should take, the command. A call stays within ten minutes; its results are at most seven files.
calls='
1 560 tests/gpu/soak.sh --seconds 480 --limit 570
2 240 tests/gpu/streaming.sh --pairs 2
2 150 benchmarks/run.sh --only ^(decode_16|train_compute)/(bare|record|65%/adaptive)$ --shares 65 --limit 160
2 130 tests/gpu/foundations.sh --pairs 3
3 200 tests/gpu/migration.sh
3 150 tests/gpu/telemetry.sh --rounds 2
3 200 tests/gpu/frameworks.sh --only graphs --pairs 3 --limit 220
4 525 tests/gpu/frameworks.sh
5 460 tests/gpu/closed_loop.sh
6 520 benchmarks/run.sh --part 1 --limit 520
7 520 benchmarks/run.sh --part 2 --limit 520
8 540 benchmarks/run.sh --part 3 --limit 540
'
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ $# -eq 0 ]; then
  echo "$calls" | awk 'NF { print; sum[$1] += $2 } END { for (call = 1; call in sum; ++call) printf "call %d: %d s\n", call, sum[call] }'
  exit 0
fi
number=$1
shift
if ! echo "$calls" | grep -q "^$number "; then
  echo "calls.sh: there is no call $number; without a number it lists them" >&2
  exit 2
fi
failed=0
while read -r call seconds command; do
  if [ "$call" = "$number" ]; then
    echo "== $command (about $seconds s)"
    # shellcheck disable=SC2086
    "$root"/$command "$@" </dev/null || failed=1
  fi
done <<END
$calls
END
exit $failed
