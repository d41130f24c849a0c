#!/usr/bin/env bash
# Measures Gnomon beside PostgreSQL: the same workloads on both servers by turns, on this machine, in one run.
#   tools/against-postgres.sh [--rounds N] [--seconds S] [--dir DIR] [WORKLOAD...]
# Workloads: pgbench-simple and pgbench-prepared (scale 1, 32 clients), hotspot (64 clients), stock (96 clients, of which
# many sleep at any time), counter and tpcb (32 clients); all of them unless some are named. Both servers have their
# default settings, those of durability too, lie in new directories under DIR (else TMPDIR, else /tmp), and are removed
# at the end. Printed are each round, and of each workload the medians with their ratio: transactions a second and, for
# the workloads of `gnomon bench`, the latency that 99 of 100 do not exceed. `gnomon bench` checks at the end of each run
# that nothing was lost or doubled.
# It needs target/release/gnomon, gnomon-bench beside it, and PostgreSQL (tools/postgres.sh) with pgbench (Debian package
# postgresql-contrib).
set -euo pipefail

usage() { sed -n '2,5s/^# *//p' "$0"; }

here=$(cd "$(dirname "$0")/.." && pwd)
gnomon=$here/target/release/gnomon
pg_port=54329
rounds=3
seconds=5
parent=${TMPDIR:-/tmp}
workloads=()
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --rounds | --seconds) [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || { echo "$1 needs a number from 1 on" >&2; exit 2; } ;;&
    --rounds) rounds=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    --dir) parent=${2:?it needs a directory}; shift 2 ;;
    pgbench-simple | pgbench-prepared | hotspot | stock | counter | tpcb) workloads+=("$1"); shift ;;
    *) usage >&2; exit 2 ;;
  esac
done
[ ${#workloads[@]} -gt 0 ] || workloads=(pgbench-simple pgbench-prepared hotspot stock counter tpcb)
[ -x "$gnomon" ] && [ -x "$gnomon-bench" ] ||
  { echo "$gnomon or $gnomon-bench is missing: cargo build --release -p gnomon-cli -p gnomon-bench" >&2; exit 1; }

# PostgreSQL runs while this script runs again beneath it.
if [ -z "${GNOMON_PG_URL:-}" ]; then
  exec "$here/tools/postgres.sh" --port "$pg_port" --dir "$parent" -- \
    "$0" --rounds "$rounds" --seconds "$seconds" --dir "$parent" "${workloads[@]}"
fi

bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
directory=$(mktemp -d "$parent/against-postgres.XXXXXX")
server=
stop() {
  trap - EXIT
  if [ -n "$server" ]; then
    kill -TERM "$server" 2>/dev/null || true
    wait "$server" || true
  fi
  rm -rf "$directory"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
"$gnomon" serve "$directory/gnomon" --port 0 >"$directory/log" 2>&1 &
server=$!
port=
for _ in $(seq 100); do
  kill -0 "$server" 2>/dev/null || break
  port=$(sed -n 's/^serving .* on 127\.0\.0\.1:\([0-9]*\)$/\1/p' "$directory/log")
  [ -z "$port" ] || break
  sleep 0.1
done
[ -n "$port" ] || { cat "$directory/log" >&2; exit 1; }

# The arguments with which pgbench reaches a server.
reach() {
  case $1 in
    gnomon) echo "-h 127.0.0.1 -p $port -U gnomon gnomon" ;;
    postgres) echo "-h 127.0.0.1 -p $pg_port -U gnomon postgres" ;;
  esac
}

# Prints transactions a second, and the 50th and 99th percentile of the latency in microseconds, or dashes.
measure() {
  local workload=$1 where=$2 url=$GNOMON_PG_URL clients=32
  [ "$where" = postgres ] || url=postgres://gnomon@127.0.0.1:$port/gnomon
  case $workload in
    pgbench-*)
      # shellcheck disable=SC2046 # words
      "$bin/pgbench" -n -c 32 -j 2 -T "$seconds" -M "${workload#pgbench-}" $(reach "$where") 2>"$directory/errors" |
        sed -n 's/^tps = \([0-9]*\).*/\1 - -/p'
      ;;
    *)
      case $workload in hotspot) clients=64 ;; stock) clients=96 ;; esac
      "$gnomon" bench "$workload" --clients "$clients" --seconds "$seconds" --json --url "$url" 2>"$directory/errors" |
        sed -En 's/.*"tps":([0-9]+).*"p50":([0-9]+).*"p99":([0-9]+).*/\1 \2 \3/p'
      ;;
  esac || { cat "$directory/errors" >&2; exit 1; }
}

# The median of one column of a workload's rounds on a server.
median() {
  local count
  count=$(wc -l <"$directory/$1.$2")
  awk -v column="$3" '{ print $column }' "$directory/$1.$2" | sort -n | sed -n "$(((count + 1) / 2))p"
}

echo "$("$gnomon" --version) and $("$bin/postgres" --version), $(nproc) cores, $rounds rounds of $seconds s"
case " ${workloads[*]} " in
  *" pgbench-"*)
    for where in gnomon postgres; do
      # shellcheck disable=SC2046 # words
      "$bin/pgbench" -q -i -s 1 $(reach "$where") >"$directory/errors" 2>&1 || { cat "$directory/errors" >&2; exit 1; }
    done
    ;;
esac
for round in $(seq "$rounds"); do
  for workload in "${workloads[@]}"; do
    for where in gnomon postgres; do
      line=$(measure "$workload" "$where")
      echo "$line" >>"$directory/$workload.$where"
      echo "round $round, $workload, $where: $line" >&2
    done
  done
done
printf '%-17s %10s %12s %6s %12s %14s %9s\n' workload 'gnomon tps' 'postgres tps' ratio 'gnomon p99' 'postgres p99' ratio
for workload in "${workloads[@]}"; do
  ours=$(median "$workload" gnomon 1)
  theirs=$(median "$workload" postgres 1)
  our_p99=$(median "$workload" gnomon 3)
  their_p99=$(median "$workload" postgres 3)
  ratio=$(awk -v a="$ours" -v b="$theirs" 'BEGIN { printf "%.2f", a / b }')
  p99_ratio=-
  [ "$our_p99" = - ] || p99_ratio=$(awk -v a="$our_p99" -v b="$their_p99" 'BEGIN { printf "%.3f", a / b }')
  printf '%-17s %10s %12s %6s %12s %14s %9s\n' \
    "$workload" "$ours" "$theirs" "$ratio" "$our_p99" "$their_p99" "$p99_ratio"
done
