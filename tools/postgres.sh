#!/usr/bin/env bash
# Runs a command beside a PostgreSQL server of its own, to compare with:
#   tools/postgres.sh [--port PORT] [--dir DIR] [--set NAME=VALUE]... -- COMMAND ARGUMENT...
#   tools/postgres.sh -- sh -c 'target/release/gnomon-bench hotspot --clients 32 --url "$GNOMON_PG_URL"'
# The command finds the server's URL in GNOMON_PG_URL; an argument that is @url stands for it, so that no shell is
# needed:
#   tools/postgres.sh -- target/release/gnomon-bench hotspot --clients 32 --url @url
# The server is the newest under /usr/lib/postgresql (Debian package postgresql). It has default settings, those of
# durability too, but for max_connections (200) and what --set gives. It listens on loopback only, where it trusts
# everybody, and runs as postgres or nobody if this runs as root. Its data lies in a new directory under DIR (else
# TMPDIR, else /tmp), which that user must be able to reach, and is removed at the end: what is measured is the disk
# there. The exit code is the command's.
set -euo pipefail

usage() { sed -n '3s/^# *//p' "$0" >&2; exit 2; }

port=54329
parent=${TMPDIR:-/tmp}
settings=()
while [ $# -gt 0 ]; do
  case $1 in
    --port | --dir | --set) [ $# -gt 1 ] || usage ;;&
    --port) port=$2; shift 2 ;;
    --dir) parent=$(cd "$2" && pwd); shift 2 ;;
    --set) settings+=(-c "$2"); shift 2 ;;
    --) shift; break ;;
    *) usage ;;
  esac
done
[ $# -gt 0 ] || usage

bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1 || true)
[ -n "$bin" ] && [ -x "$bin/initdb" ] || {
  echo "PostgreSQL is missing: apt-get install --no-install-recommends postgresql" >&2
  exit 1
}

# The server refuses to run as root.
as=()
if [ "$(id -u)" = 0 ]; then
  user=postgres
  id "$user" >/dev/null 2>&1 || user=nobody
  as=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups --)
fi

directory=$(mktemp -d "$parent/gnomon-postgres.XXXXXX")
server=
stop() {
  trap - EXIT
  if [ -n "$server" ]; then
    # SIGINT is PostgreSQL's fast shutdown: sessions are ended, nothing is left to recover.
    kill -INT "$server" 2>/dev/null || true
    wait "$server" || true
  fi
  rm -rf "$directory"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
[ ${#as[@]} -eq 0 ] || chown "$user" "$directory"

# Becomes a program of the server's, in a directory that it may read.
become() {
  cd "$directory"
  exec "${as[@]}" env -u PGDATA LC_ALL=C.UTF-8 "$@"
}
(become "$bin/initdb" --pgdata "$directory/data" --username gnomon --auth trust --encoding UTF8) >"$directory/log" 2>&1 || {
  cat "$directory/log" >&2
  exit 1
}
become "$bin/postgres" -D "$directory/data" -p "$port" -c listen_addresses=127.0.0.1 -c unix_socket_directories= \
  -c max_connections=200 "${settings[@]}" >>"$directory/log" 2>&1 &
server=$!
# Somebody else's server may answer on this port: ours says so in a file of its own.
ready() { grep -qs ready "$directory/data/postmaster.pid"; }
for _ in $(seq 300); do
  kill -0 "$server" 2>/dev/null || break
  ! ready || break
  sleep 0.1
done
kill -0 "$server" 2>/dev/null && ready || {
  echo "PostgreSQL does not start on port $port:" >&2
  tail -n 5 "$directory/log" >&2
  exit 1
}

export GNOMON_PG_URL="postgres://gnomon@127.0.0.1:$port/postgres"
command=()
for argument; do
  [ "$argument" != @url ] || argument=$GNOMON_PG_URL
  command+=("$argument")
done
code=0
"${command[@]}" || code=$?
exit "$code"
