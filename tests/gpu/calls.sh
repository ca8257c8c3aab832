#!/bin/sh
# What to run next on a GPU, in the order of worth. Without a number it lists the calls; with one it runs that call's lines, one after the other.
# Usage: tests/gpu/calls.sh [NUMBER [--build FOLDER] [--out FOLDER] [--work FOLDER]]
# A line: the call, the seconds it should take, the command. A call stays within ten minutes; its results are at most seven files.
calls='
1  45 tests/gpu/streaming.sh --only blocks.0.5 --pairs 1 --limit 60
1 520 benchmarks/run.sh --part 1 --limit 520
2 520 benchmarks/run.sh --part 2 --limit 520
3 265 benchmarks/run.sh --part 3 --limit 265
3 200 tests/gpu/frameworks.sh --only graphs --pairs 3 --limit 220
3  75 tests/gpu/soak.sh --seconds 60 --memcheck-operations 400 --limit 140
4 240 tests/gpu/streaming.sh --pairs 2
4 300 benchmarks/run.sh --part 3 --limit 300
9 540 benchmarks/run.sh --part 3 --limit 540
5 560 tests/gpu/soak.sh --seconds 480 --limit 570
6 130 tests/gpu/foundations.sh --pairs 3
6 200 tests/gpu/migration.sh
6 150 tests/gpu/telemetry.sh --rounds 2
7 525 tests/gpu/frameworks.sh
8 460 tests/gpu/closed_loop.sh
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
