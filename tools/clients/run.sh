#!/usr/bin/env bash
# Runs the scenarios of real clients (ActiveRecord) against a Gnomon server that it starts, or against the server of a URL:
#   tools/clients/run.sh [postgresql://USER@HOST:PORT/DATABASE]
# The clients are installed under target/clients, in the versions that are pinned here. The program is the one that
# GNOMON names, else target/debug/gnomon.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
cache=$root/target/clients
mkdir -p "$cache"

installed() { # installed NAME FILE...: true if NAME was installed from these files, as they are now
  [ -e "$cache/$1.sum" ] && [ "$(cat "$cache/$1.sum")" = "$(cat "${@:2}" | sha256sum)" ]
}
note_installed() { cat "${@:2}" | sha256sum >"$cache/$1.sum"; }


if [ $# -gt 0 ]; then
  export CLIENT_URL=$1
else
  data=$(mktemp -d)
  "${GNOMON:-$root/target/debug/gnomon}" serve "$data/db" --port 0 >"$data/log" 2>&1 &
  server=$!
  trap 'kill $server; wait $server || true; rm -rf "$data"' EXIT
  port=
  for _ in $(seq 300); do
    port=$(sed -nE 's/.*127\.0\.0\.1:([0-9]+).*/\1/p' "$data/log" | head -1)
    [ -z "$port" ] || break
    sleep 0.1
  done
  [ -n "$port" ] || { cat "$data/log" >&2; exit 1; }
  export CLIENT_URL=postgresql://postgres@127.0.0.1:$port/postgres
fi

passed=0 failed=0
scenario() { # scenario NAME COMMAND...
  local out
  if out=$(timeout --kill-after=5 60 "${@:2}" 2>&1); then
    passed=$((passed + 1))
    echo "ok $1"
  else
    failed=$((failed + 1))
    printf 'FAILED %s\n%s\n' "$1" "$out"
  fi
}
scenario activerecord ruby ruby/scenario.rb
echo "$passed passed, $failed failed"
[ $failed = 0 ]
