#!/bin/sh
# Prints where promtool is: scripts/promtool.sh DIR. Where it is not installed Debian's is unpacked in DIR. The
# package is not installed, as it would start a Prometheus server on this machine.
set -eu
dir=${1:?usage: scripts/promtool.sh DIR}
if command -v promtool; then
	exit 0
fi
if [ ! -x "$dir/usr/bin/promtool" ]; then
	if ! command -v apt-get >/dev/null 2>&1; then
		echo "promtool is missing; it comes with Prometheus: https://prometheus.io/download" >&2
		exit 1
	fi
	rm -rf "$dir"
	mkdir -p "$dir"
	if [ "$(id -u)" = 0 ]; then
		apt-get update -qq
	fi
	if ! (cd "$dir" && apt-get download -qq prometheus >download.log 2>&1 && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb); then
		cat "$dir/download.log" >&2
		echo "promtool: Debian's package prometheus could not be had; install Prometheus, https://prometheus.io/download" >&2
		exit 1
	fi
fi
echo "$dir/usr/bin/promtool"
