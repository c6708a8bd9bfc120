#!/bin/bash
# Compares gpu/driver/gorgonia/include with the CUDA headers that this machine has: that
# of gorgonia.org/cu's own code generator (CUDA 11.0), and those of the toolkits that are
# installed or named as arguments. A constant, a layout or a function that differs fails;
# what a header does not have any more is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
ours=gpu/driver/gorgonia/include
cc=${CC:-gcc}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One line each: a constant's name, or a type's and a field's.
awk '
# CU_CTX_FLAGS_MASK is the sum of all flags, which grows from version to version.
/^    [A-Z]/ && / = / && $1 != "CU_CTX_FLAGS_MASK" { print $1 }
/^#define CU[A-Z0-9_]+ [^ ]/ && $2 !~ /VERSION|FUNCTION|REQUIRED|_H$/ { print $2 }
/^typedef struct [A-Za-z0-9_]+ \{/ { fields = 0; inside = 1; next }
inside && /^\}/ { type = substr($2, 1, length($2) - 1); print type; for (i = 0; i < fields; i++) print type, field[i]; inside = 0 }
inside { name = $NF; gsub(/[*;]|\[.*/, "", name); field[fields++] = name }
' $ours/cuda.h >"$work/names"

# lines HEADER prints, as C, what the header makes of the names that are left.
lines() {
	printf '#include "%s"\n' "$1"
	# cu passes the first form of these, which later headers call so.
	printf '#if defined CUDA_VERSION && CUDA_VERSION >= 12000\n#define CUDA_KERNEL_NODE_PARAMS CUDA_KERNEL_NODE_PARAMS_v1\n#endif\n'
	printf 'int printf(const char *, ...);\nint main(void) {\n'
	awk '
	NF == 2 { printf "printf(\"%s.%s %%ld %%ld\\n\", (long)__builtin_offsetof(%s, %s), (long)sizeof(((%s *)0)->%s));\n", $1, $2, $1, $2, $1, $2; next }
	/^CU[a-z]/ || /PARAMS$|DESCRIPTOR$|^CUDA_MEMCPY/ { printf "printf(\"%s %%ld\\n\", (long)sizeof(%s));\n", $1, $1; next }
	{ printf "printf(\"%s %%ld\\n\", (long)%s);\n", $1, $1 }' "$work/left"
	printf '}\n'
}

# declarations prints our functions, to stand beside a header's own.
declarations() {
	printf '#include "%s"\n' "$1"
	printf '#if defined CUDA_VERSION && CUDA_VERSION >= 12000\n#define CUDA_KERNEL_NODE_PARAMS CUDA_KERNEL_NODE_PARAMS_v1\n#endif\n'
	sed -n 's/^CUDA_[A-Z]*(\(cu[A-Za-z0-9]*\)\(_v[0-9]\)\{0,1\}, (\(.*\)))$/\1 \1\2 \3/p' $ours/cuda_functions.h |
		while read -r plain name parameters; do
			printf '#ifndef %s\nCUresult %s(%s);\n#endif\n#undef %s\nCUresult %s(%s);\n' "$plain" "$plain" "$parameters" "$name" "$name" "$parameters"
		done
}

compare() {
	local header=$1 gone
	cp "$work/names" "$work/left"
	# Names that the header does not have are left out, until it compiles.
	until lines "$header" >"$work/theirs.c" && $cc -w -fmax-errors=0 -o "$work/theirs" "$work/theirs.c" 2>"$work/errors"; do
		sed -n "s/.*error: .\([A-Za-z0-9_]*\). undeclared.*/\1/p; s/.*error: .* has no member named .\([A-Za-z0-9_]*\).$/\1/p" "$work/errors" | sort -u >"$work/unknown"
		[ -s "$work/unknown" ] || { cat "$work/errors" >&2; return 1; }
		awk 'NR == FNR { unknown[$1] = 1; next } !($1 in unknown) && !(NF == 2 && $2 in unknown)' "$work/unknown" "$work/left" >"$work/next"
		mv "$work/next" "$work/left"
	done
	lines "$PWD/$ours/cuda.h" >"$work/ours.c"
	$cc -w -o "$work/ours" -I$ours "$work/ours.c"
	"$work/ours" >"$work/ours.txt"
	"$work/theirs" >"$work/theirs.txt"
	if ! diff "$work/ours.txt" "$work/theirs.txt" >&2; then
		echo "cuda-header: $ours/cuda.h (<) is not what $header says (>)" >&2
		return 1
	fi
	declarations "$header" >"$work/declarations.c"
	$cc -w -fsyntax-only "$work/declarations.c" || { echo "cuda-header: $ours/cuda_functions.h is not what $header says" >&2; return 1; }
	gone=$(sort "$work/names" | comm -23 - <(sort "$work/left") | tr '\n' ' ')
	echo "cuda-header: $(wc -l <"$work/theirs.txt") constants and layouts are as in $header${gone:+; it does not have $gone}"
}

headers=()
if command -v "${GO:-go}" >/dev/null; then
	${GO:-go} mod download gorgonia.org/cu
	headers+=("$(${GO:-go} list -m -f '{{.Dir}}' gorgonia.org/cu)/cmd/genlib/cuda.h")
fi
for header in "${CUDA_HOME:-/usr/local/cuda}/include/cuda.h" /opt/cuda/include/cuda.h /usr/include/cuda.h; do
	[ ! -f "$header" ] || headers+=("$header")
done
headers+=("$@")
[ ${#headers[@]} -gt 0 ] || { echo "cuda-header: neither Go nor a CUDA header is here: scripts/cuda-header.sh FILE names one" >&2; exit 1; }
for header in "${headers[@]}"; do compare "$header"; done
