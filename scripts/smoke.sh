#!/usr/bin/env bash
# Real clients against the built server: redis-cli, redis-benchmark, the Python redis client.
# usage: scripts/smoke.sh path/to/pronghorn [port]
set -euo pipefail
cd "$(dirname "$0")/.."
server=${1:?usage: scripts/smoke.sh path/to/pronghorn [port]}
port=${2:-22950}
[ -x "$server" ] || { echo "smoke: $server does not exist; build it first"; exit 1; }
for program in redis-cli redis-benchmark; do
    command -v $program >/dev/null || { echo "smoke: $program is missing; install Debian's redis-tools"; exit 1; }
done

directory=$(mktemp -d)
"$server" --port "$port" --bind 127.0.0.1 --dir "$directory" >"$directory/log" 2>&1 &
pid=$!
trap 'kill $pid 2>/dev/null || true; wait $pid 2>/dev/null || true; rm -rf "$directory"' EXIT
cli() { redis-cli -p "$port" "$@"; }
for _ in $(seq 200); do
    [ "$(cli ping 2>/dev/null || true)" = PONG ] && break
    kill -0 $pid 2>/dev/null || { echo "smoke: the server ended at start:"; cat "$directory/log"; exit 1; }
    sleep 0.05
done

check() { # name, expected, actual
    if [ "$2" = "$3" ]; then echo "ok   $1"; else echo "FAIL $1: expected '$2', got '$3'"; exit 1; fi
}
check "redis-cli ping" PONG "$(cli ping)"
check "redis-cli set" OK "$(cli set greeting hello)"
check "redis-cli get" hello "$(cli get greeting)"
check "redis-cli RESP3" hello "$(cli -3 get greeting)"
check "redis-cli pipe" "errors: 0, replies: 2" \
    "$(printf 'SET a 1\r\nSET b 2\r\n' | cli --pipe | tail -1)"
check "redis-cli scan" 3 "$(cli --scan | wc -l)"
check "log line tools look for" 1 "$(grep -c 'Ready to accept connections' "$directory/log")"

redis-benchmark -p "$port" -q -n 20000 -c 20 -P 16 -r 1000 -d 100 -t ping,set,get,incr,mset
redis-benchmark -p "$port" -q -n 5000 -c 50 -t set,get
check "still answering" PONG "$(cli ping)"

python="${CARGO_TARGET_DIR:-target}/python/bin/python"
if ! "$python" -c 'import redis' 2>/dev/null; then
    python=python3
    if ! python3 -c 'import redis' 2>/dev/null; then
        echo "smoke: the Python redis client is missing: .ci/run installs it, or pip install redis"
        exit 1
    fi
fi
"$python" scripts/smoke_client.py "$port"
cli shutdown nosave || true
wait $pid && check "exit status after SHUTDOWN" 0 $?
