#!/bin/bash
# How long a request over a connection that is there takes while hundreds of clients at once
# make handshakes, with limits.key_exchanges as it is by default, as a ratio to the same
# without a bound; in interleaved rounds, with the server on a core of its own. The
# certificate's key is RSA with 2048 bits, so that the server has more to do than its
# clients. "make overload" builds what it needs and runs it:
#
#   scripts/overload.sh BINARIES
#
# BINARIES holds tlsproxy and goproxy. In the environment: SERVER_CORE (0), CLIENT_CORES (the
# others), CONCURRENCY (512), ROUNDS (3).
set -euo pipefail

binaries=$(cd "${1:?usage: scripts/overload.sh BINARIES}" && pwd)
cores=$(nproc --all)
[ "$cores" -ge 2 ] || { echo 'overload: one core is not enough for server and clients' >&2; exit 1; }
SERVER_CORE=${SERVER_CORE:-0}
CLIENT_CORES=${CLIENT_CORES:-1-$((cores - 1))}
CONCURRENCY=${CONCURRENCY:-512}
ROUNDS=${ROUNDS:-3}

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
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem -out cert.pem -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
port=23000
taskset -c "$CLIENT_CORES" "$binaries/goproxy" backend --listen 127.0.0.1:$port >backend.log &
pids+=("$!")

# under KEY_EXCHANGES sets median to that of requests over connections that are there, in
# nanoseconds, and prints how many handshakes of the load were made and refused. It is not
# for a subshell, in which finish would not know of what it starts.
under() {
	port=$((port + 1))
	cat >proxy.yaml <<-CONFIG
		listen: localhost:$port
		certificates: [{cert: cert.pem, key: key.pem}]
		backends: {urls: "http://127.0.0.1:23000"}
		limits: {key_exchanges: $1, handshakes_per_source: 4096}
		log: {level: error}
	CONFIG
	taskset -c "$SERVER_CORE" "$binaries/tlsproxy" run -c proxy.yaml &
	local server=$!
	pids+=("$server")
	until (exec 3<>"/dev/tcp/localhost/$port") 2>/dev/null; do
		kill -0 "$server" 2>/dev/null || { echo 'overload: tlsproxy did not start' >&2; exit 1; }
		sleep 0.1
	done
	taskset -c "$CLIENT_CORES" "$binaries/tlsproxy" bench localhost:$port --ca cert.pem --groups X25519 \
		--concurrency "$CONCURRENCY" --duration 1h --json >load.json 2>/dev/null &
	local load=$!
	pids+=("$load")
	sleep 2
	taskset -c "$CLIENT_CORES" "$binaries/tlsproxy" bench localhost:$port --ca cert.pem --groups X25519 \
		--concurrency 1 --warm-up 0s --duration 20s --requests 3 --json >probe.json || true # some are refused
	kill -INT "$load"
	wait "$load" || true
	kill "$server"
	wait "$server" || true
	pids=("${pids[0]}")
	median=$(jq -r '.levels[0][0].request.p50' probe.json)
	jq -r '.levels[0][0] | "  \(.completed) handshakes were made, \(.per_second | round) a second, \(.failed) refused"' load.json >&2
}

for round in $(seq "$ROUNDS"); do
	echo "round $round, without a bound:" >&2
	under 1000000
	before=$median
	echo "round $round, by default:" >&2
	under 0
	after=$median
	jq -nr --argjson a "$after" --argjson b "$before" '"a request takes \($a / $b * 1000 | round / 1000) of the time: \($a / 1e6 | round) ms against \($b / 1e6 | round) ms"'
done
