#!/bin/bash
# Compiles the kernels to PTX with nvcc, into a folder that the measurements can load instead of the embedded PTX:
#
#   kernels/build-nvcc.sh FOLDER
#   go test -tags gputest -run XXX -bench PTX ./gpu -kernels.ptx FOLDER
#
# It is for comparison: what is embedded comes from build-ptx.sh. NVCC names the compiler, ARCH the architecture (sm_90 if not set).
set -euo pipefail
[ $# = 1 ] || { echo "build-nvcc.sh: say where to: kernels/build-nvcc.sh FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
nvcc=${NVCC:-nvcc}
command -v "$nvcc" >/dev/null || { echo "build-nvcc.sh: $nvcc is not there; it comes with the CUDA toolkit, and NVCC names another" >&2; exit 1; }
# No contraction of floats, as in build-ptx.sh.
flags=(-std=c++17 --expt-relaxed-constexpr -arch="${ARCH:-sm_90}" -fmad=false -Ikernels -ptx)
printf '%s\n' kernels/*.cu | xargs -P "$(nproc)" -I{} sh -c '"$@" -o "$0/$(basename {} .cu).ptx" {}' "$folder" "$nvcc" "${flags[@]}"
