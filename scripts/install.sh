#!/bin/sh
# Installs tlsproxy, with its manual pages, completion and systemd's units:
# scripts/install.sh PROGRAM DESTDIR PREFIX. DESTDIR, for packagers, stands in front of all
# paths, and the units know nothing of it.
set -eu
program=${1:?usage: scripts/install.sh PROGRAM DESTDIR PREFIX} destination=${2-} prefix=${3:?}
[ -x "$program" ] || { echo "install: no $program; type make build" >&2; exit 1; }
to=$destination$prefix

# put FILE PATH: what standard input brings, unless FILE is named.
put() {
	install -d "$(dirname "$2")"
	if [ "$1" = - ]; then cat >"$2" && chmod 644 "$2"; else install -m 644 "$1" "$2"; fi
}

install -d "$to/bin"
install -m 755 "$program" "$to/bin/tlsproxy"
"$program" man tlsproxy.1 | put - "$to/share/man/man1/tlsproxy.1"
"$program" man tlsproxy.yaml.5 | put - "$to/share/man/man5/tlsproxy.yaml.5"
"$program" completion bash | put - "$to/share/bash-completion/completions/tlsproxy"
"$program" completion zsh | put - "$to/share/zsh/site-functions/_tlsproxy"
"$program" completion fish | put - "$to/share/fish/vendor_completions.d/tlsproxy.fish"
put cmd/tlsproxy/tlsproxy.example.yaml "$to/share/doc/tlsproxy/tlsproxy.example.yaml"
put deploy/systemd/tlsproxy.sysusers "$to/lib/sysusers.d/tlsproxy.conf"
put deploy/systemd/tlsproxy.socket "$to/lib/systemd/system/tlsproxy.socket"
sed "s|/usr/local/bin/|$prefix/bin/|" deploy/systemd/tlsproxy.service | put - "$to/lib/systemd/system/tlsproxy.service"
