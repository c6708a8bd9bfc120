#!/bin/sh
# Prints a pattern for "go test -run" that matches those tests of packages which need
# a build tag, and no others:
#
#   scripts/tests-of.sh TAG PACKAGE...
set -eu
tag=$1
shift
for package; do
	for file in "$package"/*_test.go; do
		if sed -n '/^\/\/go:build /{p;q}' "$file" | grep -qw -- "$tag"; then
			sed -nE 's/^func (Test[A-Za-z0-9_]+)\(.*/\1/p' "$file"
		fi
	done
done | sort -u | paste -sd '|' | sed 's/..*/^(&)$/' | grep . || { echo "tests-of: no test of $* has the tag $tag" >&2; exit 1; }
