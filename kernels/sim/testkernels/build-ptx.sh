#!/bin/bash
# Compiles testkernels.cu to the committed testkernels.ptx; with --check, fails if that is not what the source gives. The compiler is the
# one of kernels/build-ptx.sh, clang 19, and the output depends on nothing else.
set -euo pipefail
cd "$(dirname "$0")/../../.."
clang=${CLANG:-clang-19}
committed=kernels/sim/testkernels/testkernels.ptx
built=$(mktemp)
trap 'rm -f "$built"' EXIT
"$clang" -x cuda --cuda-device-only -S -nocudainc -nocudalib --cuda-gpu-arch=sm_80 --cuda-feature=+ptx70 -std=c++17 -O3 -ffp-contract=off \
    -fno-strict-aliasing -Ikernels -Wall -Wextra -Werror -Wno-unused-function kernels/sim/testkernels/testkernels.cu -o "$built"
if [ "${1:-}" = --check ]; then
    cmp "$built" "$committed" || { echo "build-ptx.sh: $committed is out of date: run make ptx and commit the result" >&2; exit 1; }
    exit
fi
cp "$built" "$committed"
