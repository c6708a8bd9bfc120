#!/bin/sh
# Runs the units of deploy/systemd under a systemd of their own, in a container over this
# machine's files, of which it changes none: scripts/systemd.sh PROGRAM. Needs root on Debian,
# and leave to make namespaces and mounts.
set -eu
program=${1:?usage: scripts/systemd.sh PROGRAM}
[ "$(id -u)" = 0 ] || { echo "systemd: only root can start a container" >&2; exit 1; }

work=$(mktemp -d)
trap 'umount "$work/root" "$work" 2>/dev/null || :; rmdir "$work" 2>/dev/null || :' EXIT
mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
root=$work/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$root"

scripts/install.sh "$program" "$root" /usr/local
chroot "$root" systemd-sysusers tlsproxy.conf
etc=$root/etc/tlsproxy
mkdir -p "$etc"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost \
	-addext subjectAltName=DNS:localhost -keyout "$etc/key.pem" -out "$etc/cert.pem" 2>/dev/null
cat >"$etc/tlsproxy.yaml" <<'YAML'
listen: [":443"]
certificates: [{cert: cert.pem, key: key.pem}]
backends: {urls: ["http://127.0.0.1:8080"]}
admin: {listen: ":9443"}
YAML
chroot "$root" chgrp -R tlsproxy /etc/tlsproxy
chmod -R g+rX "$etc"

cat >"$root/etc/systemd/system/probe.target" <<'UNIT'
[Unit]
Requires=basic.target
Wants=probe.service
UNIT
cat >"$root/etc/systemd/system/probe.service" <<'UNIT'
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/bash /probe
ExecStopPost=/bin/systemctl poweroff --no-block
UNIT
cat >"$root/probe" <<'PROBE'
# What is expected of the units; the first that is not so ends it.
exec >/result 2>&1
set -euxo pipefail
trap 'journalctl --no-pager -u tlsproxy; systemctl show tlsproxy' ERR
main() { systemctl show -P MainPID tlsproxy; }
# Nobody listens at the backend's port: 503 is the proxy's own answer.
serves() { [ "$(curl -s --cacert /etc/tlsproxy/cert.pem -o /dev/null -w '%{http_code}' https://localhost/)" = 503 ]; }
reloaded() { curl -s http://localhost:9443/metrics | grep -qx "tlsproxy_reloads_total{outcome=\"ok\"} $1"; }
until_so() { for _ in {1..500}; do if "$@"; then return; fi; sleep 0.02; done; echo "never: $*"; false; }
another_than() { [ "$(main)" != "$1" ]; }

systemctl start tlsproxy # ready, since it says so itself
serves
status=/proc/$(main)/status
for line in 'CapEff:.*0400' 'CapBnd:.*0400' 'NoNewPrivs:.*1' 'Seccomp:.*2'; do grep -q "^$line\$" "$status"; done
[ "$(stat -c %U "/proc/$(main)")" = tlsproxy ]

systemctl reload tlsproxy
until_so reloaded 1
echo 'bogus: 1' >>/etc/tlsproxy/tlsproxy.yaml
if systemctl reload tlsproxy; then echo 'a mistake was taken'; false; fi
sed -i '$d' /etc/tlsproxy/tlsproxy.yaml
systemctl is-active tlsproxy
serves
systemctl reload tlsproxy
until_so reloaded 2

before=$(main)
systemctl kill -s USR2 --kill-whom=main tlsproxy
until_so another_than "$before"
serves
[ "$(systemctl show -P NRestarts tlsproxy)" = 0 ]
systemctl stop tlsproxy
[ "$(systemctl show -P Result tlsproxy)" = success ]

sed -i 's/":443"/"systemd:https"/' /etc/tlsproxy/tlsproxy.yaml
systemctl start tlsproxy.socket
serves # which starts it
systemctl restart tlsproxy
serves
set +x
echo 'the units do as they should'
PROBE

timeout 120 systemd-nspawn --quiet --register=no --keep-unit --private-network -D "$root" --boot -- --unit=probe.target >"$work/log" 2>&1 || :
if ! grep -qx 'the units do as they should' "$root/result" 2>/dev/null; then
	cat "$work/log" "$root/result" >&2 2>/dev/null || :
	exit 1
fi
tail -n 1 "$root/result"
