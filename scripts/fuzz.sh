#!/bin/sh
# Runs every fuzz target of the module for a while each: scripts/fuzz.sh 10s
set -eu
time=${1:?usage: scripts/fuzz.sh DURATION}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
ran=0

# fuzz PACKAGE TARGET fails if an input does. When the time is up in the middle of an
# input, the go command can call that a failure, by the words "context deadline
# exceeded"; it writes down no input then.
fuzz() {
	status=0
	go tool gotls test -run '^$' -fuzz "^$2\$" -fuzztime "$time" "$1" >"$log" 2>&1 || status=$?
	cat "$log"
	[ "$status" -eq 0 ] || { grep -q '^ *context deadline exceeded$' "$log" && ! grep -q 'Failing input written' "$log"; }
}

for file in $(git ls-files '*_test.go' | xargs grep -l '^func Fuzz'); do
	package=./$(dirname "$file")
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		echo "fuzz: $package $target $time"
		fuzz "$package" "$target"
		ran=$((ran + 1))
	done
done
[ "$ran" -gt 0 ] || { echo "fuzz: no target found" >&2; exit 1; }
