#!/bin/sh
# Every kernel on the GPU against its host twin. Takes seconds. Usage: kernels.sh [--build FOLDER] [other flags are ignored]
build=${SPILLWAY_BUILD:-$(dirname "$0")/../../build/release}
while [ $# -gt 0 ]; do
  if [ "$1" = --build ]; then build=$2; fi
  shift
done
"$build/bin/kernels_on_gpu"
