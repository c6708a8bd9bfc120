#!/bin/bash
# Runs the operations of CTRU-Prime and the derivation of nonces under valgrind
# with their secrets marked undefined, the KEM's in portable and in AVX2 code: a
# branch or an address that depends on a secret fails. Then plants two leaks in
# each operation, and each must be found in portable and in AVX2 code: a processor
# without AVX2 fails.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh valgrind=valgrind

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One stack for each goroutine, of which valgrind learns by jumps of the stack
# pointer; no collector and no preemption, which would look at secrets.
export GOGC=off GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1

# leaks PACKAGE TEST ARGUMENT... runs a test, or the subtests that begin with it,
# and prints the reports that have a frame of that package.
leaks() {
	local package=$1 test=$2
	shift 2
	valgrind -q --error-limit=no --max-stackframe=8192 --log-file="$work/log" \
		"$work/test" -test.v -test.run "^${test//\//$/^}$" "$@" >"$work/out" || { cat "$work/out" >&2; exit 1; }
	if ! grep -Eq -e "--- PASS: $test(/| )" "$work/out"; then
		echo "taint: $package: $test did not run: this processor, or this valgrind, lacks what it needs" >&2
		exit 1
	fi
	sed 's/^==[0-9]*== \?//' "$work/log" | awk -v RS= -v package="$package" 'index($0, package) { print; print "" }'
}

# build PACKAGE builds its tests.
build() {
	# Debug information older than what Go writes by default is all that some
	# valgrinds read.
	GOEXPERIMENT=nodwarf5 ${GO:-go} test -c -tags valgrind -o "$work/test" "./$1"
}

# check PACKAGE TEST FLAG CALLER... fails where the test has a leak, or where one
# that FLAG plants is not found in each CALLER.
check() {
	local package=$1 test=$2 flag=$3 found leak caller
	shift 3
	found=$(leaks "$package" "$test")
	if [ -n "$found" ]; then
		echo "$found"
		echo "taint: $package: $test: secrets decide branches or addresses, above" >&2
		exit 1
	fi
	for leak in branch address; do
		found=$(leaks "$package" "$test" "$flag=$leak")
		for caller in "$@"; do
			# One line for each report.
			if ! awk -v RS= '{ gsub(/\n/, " "); print }' <<<"$found" | grep -q "plantLeak.*\.$caller "; then
				echo "taint: $package: $test: the $leak planted in $caller was not found" >&2
				exit 1
			fi
		done
	done
}

build provider/internal/nonce
check provider/internal/nonce TestTaint -nonce.leak TestTaint
build provider/ctruprime
for level in portable avx2; do
	check provider/ctruprime "TestTaint/$level" -ctruprime.leak \
		taintKeyGeneration taintKeyGroup taintEncapsulation taintDecapsulation
done
echo 'taint: no secret decides a branch or an address; the planted ones are found'
