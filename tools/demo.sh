#!/bin/bash
# Runs both examples at about three times the device memory they may use, and shows what moved: on a GPU with a budget of
# 1 GiB, elsewhere on the simulated device with 64 MiB. Under a minute on two cores.
#
#   tools/demo.sh [BUILD_FOLDER] [TRACE_FOLDER]        (default: build/release, BUILD_FOLDER/demo)
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=$(realpath "${1:-$root/build/release}")
out=${2:-$build/demo}
spillway=$build/bin/spillway
for program in "$spillway" "$build/examples/train_adam" "$build/examples/decode_kv"; do
  if [[ ! -x $program ]]; then
    if command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then
      echo "demo: $program is missing; build it first (make demo does)" >&2
    else
      echo "demo: $program is missing: the examples and the preloaded library need the CUDA toolkit (nvcc), and there is none" \
           "here. Install cuda-toolkit-13-0 or set CUDA_HOME, and run make demo again. Policy and tools are built without it." >&2
    fi
    exit 2
  fi
done
mkdir -p "$out"

# A GPU counts if its driver answers; a machine with the driver but no card goes the simulated way.
if command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name --format=csv,noheader >/dev/null 2>&1; then
  echo "== on $(nvidia-smi --query-gpu=name --format=csv,noheader --id=0), with a device budget of 1 GiB"
  where=(--device-budget 1GiB)
  train=(--layers 12 --width 4096 --batch 32 --steps 3)
  decode=(--requests 96 --resident 16 --context 2048 --steps 8 --layers 4 --heads 8)
else
  echo "== no GPU here: on the simulated device with 64 MiB of memory (real results, made-up time)"
  export SPILLWAY_SIMULATED_MEMORY=64MiB
  where=(--simulated)
  train=(--layers 12 --width 1024 --batch 16 --steps 4)
  decode=(--requests 96 --resident 8 --context 512 --steps 8)
fi

failed=0
# demo NAME ARGUMENTS...: one example under Spillway, then what its trace says.
demo() {
  local name=$1 trace=$out/$1.swt
  shift
  echo
  echo "== $name $*"
  rm -f "$trace"
  if ! "$spillway" run "${where[@]}" --trace "$trace" -- "$build/examples/$name" "$@"; then
    echo "demo: $name failed" >&2
    failed=1
    return
  fi
  echo "-- trace: $trace"
  "$spillway" stats "$trace" || failed=1
}
demo train_adam "${train[@]}"
demo decode_kv "${decode[@]}"

echo
if [[ $failed -ne 0 ]]; then
  echo "demo: FAILED" >&2
  exit 1
fi
echo "demo: both examples ran beyond the device's memory, with verified results. Traces: $out"
