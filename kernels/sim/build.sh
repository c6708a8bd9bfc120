#!/bin/bash
# Builds the simulator: build/libcudasim.so with the kernels of this repository, and build/libcudasim-test.so with those of
# kernels/sim/testkernels, which the simulator's own tests load. Needs g++ 12 or clang++ 16, or later; CXX picks one.
set -euo pipefail
cd "$(dirname "$0")/../.."
cxx=${CXX:-g++}
out=build/sim
mkdir -p "$out"

common=(-std=c++20 -O2 -g -fPIC -fvisibility=hidden -pthread -Wall -Wextra)
# Kernels are instrumented: every access calls a function of hooks.cc, and so does undefined behaviour. They are not
# vectorised, which would merge and widen accesses.
kernel=("${common[@]}" -x c++ -DCTRUTLS_SIM -Ikernels -Wno-unknown-pragmas -Wno-unused-function -fno-exceptions -fno-rtti
    -fno-tree-vectorize -fno-tree-slp-vectorize -fno-tree-loop-distribute-patterns -ffp-contract=off -fno-strict-aliasing
    -fsanitize=thread,bounds,alignment,shift-exponent,signed-integer-overflow,integer-divide-by-zero)
link=(-shared -pthread -static-libstdc++ -static-libgcc -Wl,-z,now,-z,defs -Wl,--gc-sections)
if "$cxx" --version | grep -qi clang; then
    kernel+=(-fno-vectorize -fno-slp-vectorize -Wno-ignored-optimization-argument -mllvm -tsan-instrument-read-before-write=1)
fi

# compile SOURCE OBJECT FLAGS... compiles if the object is older than the source or any header.
compile() {
    local source=$1 object=$2
    shift 2
    if [ -e "$object" ] && [ -z "$(find "$source" kernels/sim kernels/device kernels -maxdepth 1 \( -name '*.h' -o -name '*.cuh' -o -path "$source" \
        -o -name build.sh \) -newer "$object" -print -quit)" ]; then
        return
    fi
    "$cxx" "$@" -c "$source" -o "$object.tmp"
    mv "$object.tmp" "$object"
}

runtime=()
jobs=()
for source in kernels/sim/*.cc; do
    object=$out/$(basename "$source" .cc).o
    runtime+=("$object")
    compile "$source" "$object" "${common[@]}" &
    jobs+=($!)
done
for source in kernels/*.cu kernels/sim/testkernels/testkernels.cu; do
    [ -e "$source" ] || continue
    object=$out/$(basename "$source" .cu).cu.o
    { compile "$source" "$object" "${kernel[@]}" && objcopy --redefine-sym memcpy=__tsan_memcpy --redefine-sym memmove=__tsan_memmove \
        --redefine-sym memset=__tsan_memset "$object"; } &
    jobs+=($!)
    # Large kernels take memory and time: two compilers at once.
    while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n || true; done
done
for job in "${jobs[@]}"; do wait "$job"; done

shipped=()
for source in kernels/*.cu; do
    [ -e "$source" ] && shipped+=("$out/$(basename "$source" .cu).cu.o")
done
"$cxx" "${link[@]}" "${runtime[@]}" "${shipped[@]}" -o build/libcudasim.so
"$cxx" "${link[@]}" "${runtime[@]}" "$out/testkernels.cu.o" -o build/libcudasim-test.so
