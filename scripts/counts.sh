#!/bin/bash
# Counts the instructions of each operation of CTRU-Prime by callgrind, in portable
# and in AVX2 code, and compares them with those recorded in
# provider/ctruprime/testdata/instructions.txt: more than 3 % more fails.
# With -update it records them instead.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh valgrind=valgrind
recorded=provider/ctruprime/testdata/instructions.txt

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
GOEXPERIMENT=nodwarf5 ${GO:-go} test -c -tags valgrind -o "$work/test" ./provider/ctruprime
export GOGC=off GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1
valgrind -q --tool=callgrind --collect-atstart=no --callgrind-out-file="$work/profile" \
	"$work/test" -test.run '^TestCounts$' >"$work/out" 2>&1 || { cat "$work/out" >&2; exit 1; }

for profile in "$work"/profile.*; do
	awk '/^desc: Trigger: Client Request: / { name = $NF } /^(totals|summary): / { total = $2 } END { if (name != "") print name, total }' "$profile"
done | sort >"$work/counts"

if [ "${1:-}" = -update ]; then
	cp "$work/counts" "$recorded"
	exit
fi
join -a 1 "$recorded" "$work/counts" | awk '
	NF < 3 { print $1 ": not counted any more"; bad = 1; next }
	{ change = ($3 / $2 - 1) * 100 }
	change > 3 { printf "%s: %d instructions, %.1f %% more than the %d recorded\n", $1, $3, change, $2; bad = 1 }
	change < -3 { printf "%s: %d instructions, %.1f %% fewer than the %d recorded: scripts/counts.sh -update\n", $1, $3, -change, $2 }
	END { if (!bad) print "counts: none has grown"; exit bad }'
