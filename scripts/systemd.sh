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
cat >"$root/backend" <<'BACKEND'
# Answers a request over HTTP/1.1; one for /slow once that is asked for.
read -r _ path _
while read -r line && [ "$line" != $'\r' ]; do :; done
if [ "$path" = /slow ]; then
	touch /begun
	until [ -e /go ]; do sleep 0.02; done
fi
printf 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nanswer'
BACKEND
cat >"$root/probe" <<'PROBE'
# What is expected of the units; the first that is not so ends it.
exec >/result 2>&1
set -euxo pipefail
trap 'journalctl --no-pager -u tlsproxy; systemctl show tlsproxy' ERR
main() { systemctl show -P MainPID tlsproxy; }
ask() { curl -s --cacert /etc/tlsproxy/cert.pem "https://localhost$1"; }
serves() { [ "$(ask /)" = answer ]; }
reloaded() { curl -s http://localhost:9443/metrics | grep -qx "tlsproxy_reloads_total{outcome=\"ok\"} $1"; }
until_so() { for _ in {1..500}; do if "$@"; then return; fi; sleep 0.02; done; echo "never: $*"; false; }
another_than() { [ "$(main)" != "$1" ]; }
is() { [ "$(systemctl show -P ActiveState tlsproxy)" = "$1" ]; }

systemd-socket-activate --listen=127.0.0.1:8080 --accept --inetd /bin/bash /backend &
until_so bash -c 'exec 3<>/dev/tcp/127.0.0.1/8080'

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
ask /slow >/slow &
until_so test -e /begun
systemctl stop --no-block tlsproxy
until_so is deactivating
touch /go
wait $!
[ "$(cat /slow)" = answer ] # though the unit was stopped meanwhile
until_so is inactive
[ "$(systemctl show -P Result tlsproxy)" = success ]

# A process that has taken over breaks down while the one before still answers a request.
rm /begun /go
systemctl start tlsproxy
before=$(main)
ask /slow >/slow &
until_so test -e /begun
systemctl kill -s USR2 --kill-whom=main tlsproxy
until_so another_than "$before"
kill -KILL "$(main)"
touch /go
wait $!
[ "$(cat /slow)" = answer ]
until_so serves
[ "$(systemctl show -P NRestarts tlsproxy)" = 1 ]
systemctl stop tlsproxy

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
