#!/bin/sh
# Runs every fuzz target of the module for a while each: scripts/fuzz.sh 10s
set -eu
time=${1:?usage: scripts/fuzz.sh DURATION}
ran=0
for file in $(git ls-files '*_test.go' | xargs grep -l '^func Fuzz'); do
	package=./$(dirname "$file")
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		echo "fuzz: $package $target $time"
		go tool gotls test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package"
		ran=$((ran + 1))
	done
done
[ "$ran" -gt 0 ] || { echo "fuzz: no target found" >&2; exit 1; }
