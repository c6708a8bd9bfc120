#!/bin/bash
# Compiles the kernels to PTX with clang 19, which needs no CUDA toolkit, and prints their sizes for kernels.go: kernels/ptx/*.ptx
# and kernels/layout.go, which are committed. The output depends on the sources and the compiler alone, byte for byte.
#
#   kernels/build-ptx.sh            rebuilds them in place
#   kernels/build-ptx.sh --check    rebuilds them elsewhere and fails if they differ
set -euo pipefail
cd "$(dirname "$0")/.."
clang=${CLANG:-clang-19}
command -v "$clang" >/dev/null || { echo "build-ptx.sh: $clang is not installed (Debian: apt-get install clang-19); CLANG names another" >&2; exit 1; }
case "$("$clang" --version)" in
*"version 19."*) ;;
*) echo "build-ptx.sh: $clang is not clang 19, which the committed PTX was built with" >&2; exit 1 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/ptx"

# sm_80 is the least that has the Tensor Cores' m16n8k32 for bytes; its PTX runs on every later architecture, and for sm_90 clang
# writes the same text but for the .target line. ptx70 came with CUDA 11.0. Products of floats are not used, but nothing may contract them if they ever are.
flags=(-x cuda --cuda-device-only -S -nocudainc -nocudalib --cuda-gpu-arch=sm_80 --cuda-feature=+ptx70 -std=c++17 -O3 -ffp-contract=off
    -Ikernels -Wall -Wextra -Werror)
for source in kernels/*.cu; do
    name=$(basename "$source" .cu)
    # The comments around inline assembly make up a fifth of the text.
    "$clang" "${flags[@]}" "$source" -o - | grep -vE '^[[:space:]]*// (begin|end) inline asm$' >"$work/ptx/$name.ptx"
done

"$clang" -x c++ -std=c++20 -O1 -DCTRUTLS_SIM -Ikernels -Wno-everything kernels/layout/layout.cc -o "$work/layout" -lstdc++
"$work/layout" | gofmt >"$work/layout.go"

if [ "${1:-}" = --check ]; then
    diff -rq "$work/ptx" kernels/ptx && diff -u kernels/layout.go "$work/layout.go" ||
        { echo "build-ptx.sh: the committed PTX is not what the sources give: run make ptx and commit the result" >&2; exit 1; }
    exit
fi
rm -rf kernels/ptx
mkdir -p kernels/ptx
cp "$work"/ptx/*.ptx kernels/ptx/
cp "$work/layout.go" kernels/layout.go
