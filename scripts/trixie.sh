#!/bin/sh
# Makes a root of Debian trixie with nginx and HAProxy in a folder, and prints its path:
# scripts/trixie.sh DIR. Their OpenSSL 3.5 has X25519MLKEM768, which that of Debian bookworm
# has not. Needs root on Debian; elsewhere it says so and prints nothing.
set -eu
dir=${1:?usage: scripts/trixie.sh DIR}
if [ ! -x "$dir/usr/sbin/haproxy" ]; then
	if [ "$(id -u)" != 0 ] || ! scripts/need.sh debootstrap=debootstrap >&2; then
		echo "trixie: no root of Debian trixie: that takes root, and debootstrap" >&2
		exit 0
	fi
	echo "making a root of Debian trixie in $dir" >&2
	rm -rf "$dir"
	if ! debootstrap --variant=minbase --include=nginx,haproxy trixie "$dir" >"$dir.log" 2>&1; then
		echo "trixie: debootstrap failed, see $dir.log" >&2
		exit 0
	fi
fi
cd "$dir" && pwd
