#!/bin/bash
# Runs the operations of CTRU-Prime and the derivation of nonces under valgrind
# with their secrets marked undefined, the KEM's in portable and in AVX2 code: a
# branch or an address that depends on a secret fails. Then plants two leaks in
# each, all of which must be found.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh valgrind=valgrind

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One stack for each goroutine, of which valgrind learns by jumps of the stack
# pointer; no collector and no preemption, which would look at secrets.
export GOGC=off GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1

# leaks PACKAGE ARGUMENT... prints the reports that have a frame of that package.
leaks() {
	local package=$1
	shift
	valgrind -q --error-limit=no --max-stackframe=8192 --log-file="$work/log" \
		"$work/test" -test.run '^TestTaint$' "$@" >"$work/out" || { cat "$work/out" >&2; exit 1; }
	sed 's/^==[0-9]*== \?//' "$work/log" | awk -v RS= -v package="$package" 'index($0, package) { print; print "" }'
}

# check PACKAGE FLAG fails where it has a leak, or where one that FLAG plants is
# not found.
check() {
	# Debug information older than what Go writes by default is all that some
	# valgrinds read.
	GOEXPERIMENT=nodwarf5 ${GO:-go} test -c -tags valgrind -o "$work/test" "./$1"
	local found leak
	found=$(leaks "$1")
	if [ -n "$found" ]; then
		echo "$found"
		echo "taint: $1: secrets decide branches or addresses, above" >&2
		exit 1
	fi
	for leak in branch address; do
		if ! leaks "$1" "$2=$leak" | grep -q plantLeak; then
			echo "taint: $1: the planted $leak was not found" >&2
			exit 1
		fi
	done
}

check provider/internal/nonce -nonce.leak
check provider/ctruprime -ctruprime.leak
echo 'taint: no secret decides a branch or an address; the planted ones are found'
