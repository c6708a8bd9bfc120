#!/bin/bash
# Compares a server's processor time for each handshake, and for each request, between
# tlsproxy, a plain Go reverse proxy, Caddy, nginx and HAProxy: one core each, ECDSA P-256
# certificate, TLS 1.3, the same backend, interleaved rounds at equal concurrency.
# "make bench-peers" builds what it needs and runs it:
#
#   scripts/bench-peers.sh BINARIES OUT
#
# BINARIES holds tlsproxy, goproxy and caddy; OUT is a folder for the reports, and for the
# table of ratios, ratios.md. nginx and HAProxy are the system's, and where TRIXIE is a
# root of Debian trixie (debootstrap --include=nginx,haproxy trixie DIR), that one's too,
# whose OpenSSL has X25519MLKEM768. What is not there is left out, and the table says so.
# In the environment: CADDY_VERSION, SERVER_CORE (0), CLIENT_CORES (the others), CONCURRENCY (16),
# ROUNDS (9), DURATION (700ms).
set -euo pipefail

binaries=$(cd "${1:?usage: scripts/bench-peers.sh BINARIES OUT}" && pwd)
out=${2:?usage: scripts/bench-peers.sh BINARIES OUT}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cores=$(nproc --all)
[ "$cores" -ge 2 ] || { echo 'bench-peers: one core is not enough for server and client' >&2; exit 1; }
SERVER_CORE=${SERVER_CORE:-0}
CLIENT_CORES=${CLIENT_CORES:-1-$((cores - 1))}
CONCURRENCY=${CONCURRENCY:-16}
ROUNDS=${ROUNDS:-9}
DURATION=${DURATION:-700ms}

work=$(mktemp -d)
pids=()
finish() {
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
	wait
	rm -rf "$work"
	[ -z "${TRIXIE:-}" ] || rm -rf "$TRIXIE$work"
}
trap finish EXIT
cd "$work"
ulimit -n "$(ulimit -Hn)"
"$binaries/goproxy" certificates .
cat server.pem server-key.pem >both.pem
chmod 644 ./*.pem
backend=22000
port=22001
left_out=()

# peer NAME GROUPS COMMAND... starts a server on $port and notes its row for each group.
# It has the server's core to itself, and is the process that the command becomes.
peers=()
peer() {
	local name=$1 groups=$2
	shift 2
	taskset -c "$SERVER_CORE" "$@" >"$port.log" 2>&1 &
	local pid=$!
	pids+=("$pid")
	for _ in $(seq 100); do
		if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			for group in $groups; do peers+=("$group|$name|$port|$pid"); done
			port=$((port + 1))
			return
		fi
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	left_out+=("$name: $(head -n 1 "$port.log")")
	port=$((port + 1))
}

nginx_configuration() { # GROUPS
	cat <<-CONFIG
		daemon off;
		master_process off;
		pid $work/nginx-$port.pid;
		error_log stderr crit;
		events { worker_connections 8192; }
		http {
			access_log off;
			client_body_temp_path $work/body-$port;
			proxy_temp_path $work/proxy-$port;
			fastcgi_temp_path $work/fastcgi-$port;
			uwsgi_temp_path $work/uwsgi-$port;
			scgi_temp_path $work/scgi-$port;
			upstream backend { server 127.0.0.1:$backend; keepalive 256; }
			server {
				listen 127.0.0.1:$port ssl backlog=4096;
				ssl_certificate $work/server.pem;
				ssl_certificate_key $work/server-key.pem;
				ssl_protocols TLSv1.3;
				ssl_ecdh_curve $1;
				location / {
					proxy_pass http://backend;
					proxy_http_version 1.1;
					proxy_set_header Connection "";
					proxy_set_header Host \$host;
					proxy_set_header X-Forwarded-For \$remote_addr;
					proxy_set_header X-Forwarded-Proto https;
				}
			}
		}
	CONFIG
}

haproxy_configuration() { # GROUPS
	cat <<-CONFIG
		global
		    nbthread 1
		    maxconn 8192
		defaults
		    mode http
		    timeout connect 5s
		    timeout client 30s
		    timeout server 30s
		    http-reuse always
		    option forwardfor
		frontend front
		    bind 127.0.0.1:$port ssl crt $work/both.pem ssl-min-ver TLSv1.3 curves $1
		    default_backend back
		backend back
		    server one 127.0.0.1:$backend pool-max-conn 256
	CONFIG
}

# openssl_peers SUFFIX GROUPS [ROOT] starts nginx and HAProxy, of the system or of a root.
openssl_peers() {
	local suffix=$1 groups=$2 root=${3:-} run=()
	[ -z "$root" ] || { run=(chroot "$root"); mkdir -p "$root$work"; cp ./*.pem "$root$work"; }
	for program in nginx haproxy; do
		local path=/usr/sbin/$program
		if [ ! -x "$root$path" ]; then
			left_out+=("$program$suffix: not installed")
			continue
		fi
		"${program}_configuration" "${groups// /:}" >"$root$work/$program-$port.conf"
		local version
		version=$("${run[@]}" $path -v 2>&1 | grep -o '[0-9]\+\.[0-9]\+\.[0-9]\+' | head -n 1)
		case $program in
		nginx) peer "nginx $version$suffix" "$groups" "${run[@]}" $path -e stderr -c "$work/nginx-$port.conf" ;;
		haproxy) peer "HAProxy $version$suffix" "$groups" "${run[@]}" $path -db -f "$work/haproxy-$port.conf" ;;
		esac
	done
}

taskset -c "$CLIENT_CORES" "$binaries/goproxy" backend --listen 127.0.0.1:$backend >backend.log &
pids+=($!)
std='X25519 X25519MLKEM768'

peer 'plain Go' "$std" "$binaries/goproxy" serve --listen 127.0.0.1:$port --cert server.pem --key server-key.pem --backend http://127.0.0.1:$backend
cat >ours.yaml <<CONFIG
listen: 127.0.0.1:$port
certificates: [{cert: server.pem, key: server-key.pem}]
backends: {urls: http://127.0.0.1:$backend}
limits: {connections_per_source: 16384, handshakes_per_source: 4096, key_exchange_wait: 10s}
CONFIG
peer tlsproxy "$std X25519CTRUPrime761" "$binaries/tlsproxy" run -c ours.yaml
if [ -x "$binaries/caddy" ]; then
	cat >Caddyfile <<-CONFIG
		{
			admin off
			auto_https off
			persist_config off
			servers {
				protocols h1 h2
			}
		}
		https://localhost:$port, https://127.0.0.1:$port {
			bind 127.0.0.1
			tls $work/server.pem $work/server-key.pem
			reverse_proxy 127.0.0.1:$backend
		}
	CONFIG
	peer "Caddy ${CADDY_VERSION:-}" "$std" env HOME="$work" "$binaries/caddy" run --config Caddyfile --adapter caddyfile
else
	left_out+=('Caddy: not built')
fi
openssl_peers '' X25519
if [ -x "${TRIXIE:-/nowhere}/usr/sbin/nginx" ]; then
	openssl_peers ' (trixie)' "$std" "$TRIXIE"
else
	left_out+=("nginx and HAProxy with OpenSSL 3.5: no root of Debian trixie")
fi

# measure FILE GROUP REQUESTS compares the rows of a group, and ours beside them.
measure() {
	local entry group name to pid
	for entry in "${peers[@]}"; do
		IFS='|' read -r group name to pid <<<"$entry"
		[ "$group" = "$2" ] || [ "$group/$2" = X25519CTRUPrime761/X25519MLKEM768 ] || continue
		[ "$group" = "$2" ] || name="$name, $group"
		printf -- '- {name: "%s", addresses: ["localhost:%d"], server_pid: %d, group: %s, requests: %d, base: %s}\n' \
			"$name" "$to" "$pid" "$group" "$3" "$([ "$name" = 'plain Go' ] && echo true || echo false)"
	done >"$1.yaml"
	taskset -c "$CLIENT_CORES" "$binaries/tlsproxy" bench --plan "$1.yaml" --ca ca.pem --concurrency "$CONCURRENCY" \
		--rounds "$ROUNDS" --duration "$DURATION" --warm-up 300ms --save "$out/$1.json" | tee "$out/$1.txt"
}

status=0
for group in $std; do
	measure "$group" "$group" 0 || status=$?
	measure "$group-request" "$group" 1 || status=$?
done
measure X25519-requests X25519 100 || status=$?

# The table of ratios: each row's processor time to the plain Go proxy's.
{
	echo '| | X25519 | with a request | X25519MLKEM768 | with a request | X25519, each of 100 requests |'
	echo '|---|---|---|---|---|---|'
	jq -rs '
		def of($file; $key): $file.levels[0] | map({key: .name, value: .ratios[0][$key]}) | from_entries;
		[of(.[0]; "server_cpu"), of(.[1]; "server_cpu"), of(.[2]; "server_cpu"), of(.[3]; "server_cpu"), of(.[4]; "server_cpu_per_request")] as $columns
		| ($columns | map(to_entries | map(.key)) | add | reduce .[] as $n ([]; if index($n) then . else . + [$n] end))[] as $name
		| "| \($name) | " + ([$columns[] | .[$name] | if . == null then "-" else (. * 100 | round | "\(. / 100 | floor).\(. % 100 + 100 | tostring | .[1:])") end] | join(" | ")) + " |"
	' "$out"/{X25519,X25519-request,X25519MLKEM768,X25519MLKEM768-request,X25519-requests}.json
	echo
	echo "Server's processor time to the plain Go proxy's, medians of $ROUNDS interleaved rounds of $DURATION, $CONCURRENCY connections at once;"
	echo "$(jq -r '.machine | "\(.cpu), \(.os) \(.kernel), \(.go)"' "$out/X25519.json"), the server on one core, the client on $CLIENT_CORES of $cores."
	for what in "${left_out[@]}"; do echo; echo "Left out: $what."; done
} | tee "$out/ratios.md"
exit $status
