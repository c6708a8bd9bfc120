#!/bin/sh
# Runs govulncheck where the vulnerability database can be had. A finding fails; a
# database that can't be reached is said and does not: that is no fault of the tree.
set -u
out=$("$@" 2>&1) && { echo "govulncheck: nothing known"; exit 0; }
case $out in
*"fetching vulnerabilities"* | *"no such host"* | *"dial tcp"* | *"connection refused"*)
	echo "govulncheck: not run, the vulnerability database can't be reached from here" ;;
*)
	echo "$out"
	exit 1 ;;
esac
