#!/bin/bash
# Measures what a server pays for a full TLS 1.3 handshake, ECDSA P-256 certificate: the
# plain Go reverse proxy with X25519 and X25519MLKEM768, and tlsproxy with those and with
# X25519CTRUPrime761 on the CPU and, where there is a GPU, on it. Rounds of all rows are
# interleaved; server and client have cores of their own. Needs no Go, only the two
# programs, taskset and a few cores:
#
#   scripts/headline.sh BINARIES OUT
#
# BINARIES holds tlsproxy (built with gotls) and goproxy (with the plain go command); the
# results go to OUT, a folder: headline.txt, the same as JSON, and a profile of a server under
# load. "make headline" builds and runs it. In the environment:
#
#   SERVER_CORES  cores of the servers, as taskset takes them (an eighth of all, from 0)
#   CLIENT_CORES  cores of the client (the others)
#   CONCURRENCY   levels under load ("16,64,256,1024")
#   ROUNDS, DURATION  of each row and level under load (3, 1500ms)
#   ALONE_ROUNDS, ALONE_DURATION  the same for one connection at a time (9, 700ms)
#
# The plain proxy has rows of its own with GOGC=400, which has it collect garbage as
# seldom as tlsproxy does of itself: they tell that apart from the rest.
set -euo pipefail

binaries=$(cd "${1:?usage: scripts/headline.sh BINARIES OUT}" && pwd)
out=${2:?usage: scripts/headline.sh BINARIES OUT}
mkdir -p "$out"
out=$(cd "$out" && pwd)

cores=$(nproc --all)
[ "$cores" -ge 2 ] || { echo 'headline: one core is not enough for server and client' >&2; exit 1; }
servers=$((cores / 8 > 0 ? cores / 8 : 1))
SERVER_CORES=${SERVER_CORES:-0-$((servers - 1))}
CLIENT_CORES=${CLIENT_CORES:-$servers-$((cores - 1))}
CONCURRENCY=${CONCURRENCY:-16,64,256,1024}
ROUNDS=${ROUNDS:-3}
DURATION=${DURATION:-1500ms}
ALONE_ROUNDS=${ALONE_ROUNDS:-9}
ALONE_DURATION=${ALONE_DURATION:-700ms}

work=$(mktemp -d)
pids=()
finish() {
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
	wait
	rm -rf "$work"
}
trap finish EXIT
cd "$work"
ulimit -n "$(ulimit -Hn)"

"$binaries/goproxy" certificates .
port=21000
rows=rows.yaml
: >$rows

# row NAME GROUP [base] adds a row of the server that was started last.
row() {
	printf -- '- {name: "%s", addresses: ["localhost:%d"], server_pid: %d, group: %s, base: %s}\n' \
		"$1" $port "${pids[-1]}" "$2" "${3:-false}" >>$rows
}

# await LOG waits until the server that was started last listens; it fails if it ends.
await() {
	for _ in $(seq 300); do
		grep -q listening "$1" && return 0
		kill -0 "${pids[-1]}" 2>/dev/null || break
		sleep 0.1
	done
	return 1
}

# start LOG COMMAND... starts a program on the servers' cores and waits for it.
start() {
	local log=$1
	shift
	taskset -c "$SERVER_CORES" "$@" >"$log" 2>&1 &
	pids+=($!)
	await "$log" && return 0
	unset 'pids[-1]'
	return 1
}

# tlsproxy NAME PROVIDER starts one with an engine; the admin listener is one port on.
tlsproxy() {
	port=$((port + 2))
	cat >"$1.yaml" <<-CONFIG
		listen: localhost:$port
		admin: {listen: localhost:$((port + 1))}
		certificates: [{cert: server.pem, key: server-key.pem}]
		backends: {urls: http://127.0.0.1:9}
		limits: {connections_per_source: 16384, handshakes_per_source: 4096, key_exchange_wait: 10s}
		provider: $2
	CONFIG
	"$binaries/tlsproxy" check -c "$1.yaml" >"$1.log" 2>&1 && start "$1.log" "$binaries/tlsproxy" run -c "$1.yaml"
}

for gogc in 100 400; do
	plain='plain Go'
	[ $gogc = 100 ] || plain="plain Go GOGC=$gogc"
	port=$((port + 2))
	start goproxy-$gogc.log env GOGC=$gogc "$binaries/goproxy" serve --listen localhost:$port --cert server.pem --key server-key.pem --backend http://127.0.0.1:9 ||
		{ cat goproxy-$gogc.log >&2; exit 1; }
	for group in X25519 X25519MLKEM768; do
		row "$plain $group" $group "$([ $gogc = 100 ] && echo true || echo false)"
	done
done

tlsproxy cpu '{engine: cpu}' || { cat cpu.log >&2; exit 1; }
row 'X25519' X25519
row 'X25519MLKEM768' X25519MLKEM768
row 'CTRUPrime761 cpu' X25519CTRUPrime761

profiled=$((port + 1)) # the admin port of the server whose profile is taken
target=$port
for engine in gpu auto; do
	for sign in false true; do
		name=$engine
		[ $sign = false ] || name=$engine-sign
		if tlsproxy $name "{engine: $engine, gpu: {sign: $sign}}"; then
			row "CTRUPrime761 $name" X25519CTRUPrime761
			[ $engine = auto ] || { profiled=$((port + 1)) target=$port; }
		else
			echo "headline: no row for $name: $(grep -v -e '^#' -e level= $name.log | tail -n 1)" >&2
			[ $engine = auto ] || break 2 # no GPU: auto would be the CPU again
		fi
	done
done

# Many sources, so that the ports of closed connections do not run out.
bench() {
	taskset -c "$CLIENT_CORES" "$binaries/tlsproxy" bench --ca ca.pem --server-name localhost --key-pool 16384 \
		--source 127.0.0.2,127.0.0.3,127.0.0.4,127.0.0.5,127.0.0.6,127.0.0.7,127.0.0.8,127.0.0.9 "$@"
}

# fetch PORT PATH FILE gets what an admin listener answers.
fetch() {
	exec 3<>"/dev/tcp/localhost/$1"
	printf 'GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$2" >&3
	LC_ALL=C sed '1,/^\r$/d' <&3 >"$3"
	exec 3<&-
}

{
	uname -srm
	grep -m 1 'model name' /proc/cpuinfo || true
	echo "cores: $cores; servers on $SERVER_CORES, client on $CLIENT_CORES"
	command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || true
	"$binaries/tlsproxy" version
} >"$out/machine.txt" 2>&1

status=0
cat "$out/machine.txt"
# Alone, a GPU's signature is a round trip more: not what anybody would ask for.
grep -v -e '-sign"' $rows >alone.yaml
bench --plan alone.yaml --concurrency 1 --rounds "$ALONE_ROUNDS" --duration "$ALONE_DURATION" --warm-up 300ms --save "$out/alone.json" |
	tee "$out/headline.txt" || status=$?
bench --plan $rows --concurrency "$CONCURRENCY" --rounds "$ROUNDS" --duration "$DURATION" --warm-up 300ms --save "$out/load.json" |
	tee -a "$out/headline.txt" || status=$?

# Where the server's time goes under load.
bench "localhost:$target" --groups X25519CTRUPrime761 --concurrency 256 --duration 8s --warm-up 1s >"$out/profiled.txt" &
load=$!
sleep 1.5
fetch $profiled '/debug/pprof/profile?seconds=6' "$out/server.pprof"
wait $load || status=$?
fetch $profiled /metrics "$out/metrics.txt"
tail -n 20 ./*.log >"$out/servers.log"
exit $status
