#!/bin/sh
# Makes sure that programs are there: scripts/need.sh COMMAND=PACKAGE ...
# PACKAGE is Debian's name for what brings COMMAND. As root on Debian the missing
# ones are installed; otherwise the one line to type is printed and the call fails.
# COMMAND may also be a path (/usr/include/x.h).
set -eu
missing=
for pair in "$@"; do
	command=${pair%%=*} package=${pair#*=}
	case $command in
	/*) [ -e "$command" ] && continue ;;
	*) command -v "$command" >/dev/null 2>&1 && continue ;;
	esac
	missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "installing:$missing" >&2
	# shellcheck disable=SC2086 # one word a package
	if { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >/dev/null; then
		exit 0
	fi
	echo "need: apt-get could not install:$missing" >&2
	exit 1
fi
echo "These are missing:$missing. On Debian, type:" >&2
echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
exit 1
