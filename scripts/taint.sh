#!/bin/bash
# Runs the operations of CTRU-Prime under valgrind with their secrets marked
# undefined, in portable and in AVX2 code: a branch or an address that depends on
# a secret fails. Then plants two leaks, each of which must be found.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh valgrind=valgrind

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Debug information older than what Go writes by default is all that some
# valgrinds read.
GOEXPERIMENT=nodwarf5 ${GO:-go} test -c -tags valgrind -o "$work/test" ./provider/ctruprime

# One stack for each goroutine, of which valgrind learns by jumps of the stack
# pointer; no collector and no preemption, which would look at secrets.
export GOGC=off GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1

# leaks ARGUMENT... prints the reports that have a frame of this package.
leaks() {
	valgrind -q --error-limit=no --max-stackframe=8192 --log-file="$work/log" \
		"$work/test" -test.run '^TestTaint$' "$@" >"$work/out" || { cat "$work/out" >&2; exit 1; }
	sed 's/^==[0-9]*== \?//' "$work/log" | awk -v RS= '/provider\/ctruprime/ { print; print "" }'
}

found=$(leaks)
if [ -n "$found" ]; then
	echo "$found"
	echo 'taint: secrets decide branches or addresses, above' >&2
	exit 1
fi
for leak in branch address; do
	if ! leaks -ctruprime.leak=$leak | grep -q plantLeak; then
		echo "taint: the planted $leak was not found" >&2
		exit 1
	fi
done
echo 'taint: no secret decides a branch or an address; the planted ones are found'
