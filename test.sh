#!/usr/bin/env bash
# Runs everything that must pass: formatting, lints, dependency audit, tests, the shuttle tests, documentation, a real
# psql, pgbench, Chromium, and clients in Python, JavaScript, Go and Ruby. Installs what that needs and is absent. Sizes
# of the long runs come from the environment:
#   GNOMON_SWEEP_SEEDS, GNOMON_CLUSTER_SEEDS, GNOMON_SHUTTLE_SEEDS, GNOMON_KILLS,
#   GNOMON_CLUSTER_FAULTS, GNOMON_STRESS, PROPTEST_CASES, GNOMON_FUZZ_SECONDS;
# GNOMON_RECOVERY names the recovery method of databases that tests make and do not choose one for.
set -euo pipefail
cd "$(dirname "$0")"

step() { printf '\n== %s\n' "$*"; }

# A test that hangs fails its step, and cargo has named it by then.
run_tests() { timeout --kill-after=10 40m cargo test --locked "$@"; }

install() { # install COMMAND PACKAGE
  command -v "$1" >/dev/null && return
  step "installing $2"
  local sudo=""
  [ "$(id -u)" = 0 ] || sudo="sudo"
  $sudo apt-get update -qq
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2"
}

command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.90 or newer" >&2; exit 1; }
install cc gcc
install psql postgresql-client
install strace strace
install pgbench postgresql-contrib
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || install "PostgreSQL's server" postgresql
install python3 python3
install chromium chromium
# The report's page is measured with the fonts that Debian's Chromium comes with.
fc-list 2>/dev/null | grep -q Liberation || install liberation-fonts fonts-liberation
install etcd etcd-server
python3 -c 'import ensurepip' 2>/dev/null || install python3-venv python3-venv
install node nodejs
install npm npm
install go golang-go
install ruby ruby
ruby -e 'require "active_record"' 2>/dev/null || install activerecord ruby-activerecord
ruby -e 'require "pg"' 2>/dev/null || install ruby-pg ruby-pg
if [ "${GNOMON_CLIENTS:-}" = all ]; then
  install javac default-jdk-headless
  install mvn maven
  install /usr/sbin/pgbouncer pgbouncer
fi

export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-auto}
export GNOMON_CLUSTER_SEEDS=${GNOMON_CLUSTER_SEEDS:-10000}

step "formatting"
cargo fmt --all --check

step "language and links"
tools/house.py --language
tools/links.py

step "lints"
cargo clippy --locked --workspace --all-targets -- -D warnings

step "dependency audit"
deny_version=0.20.2
if [ "$(target/tools/bin/cargo-deny --version 2>/dev/null)" != "cargo-deny $deny_version" ]; then
  cargo install --quiet --locked --debug cargo-deny --version $deny_version --root target/tools
fi
cargo fetch --quiet --locked --manifest-path crates/gnomon-bench/peers/Cargo.toml
target/tools/bin/cargo-deny --offline --locked check bans licenses sources
target/tools/bin/cargo-deny --offline --locked --manifest-path crates/gnomon-bench/peers/Cargo.toml --config "$PWD/deny.toml" check licenses sources

step "tests"
run_tests --workspace

step "fuzz targets"
# The same packages and features as the tests above, so that nothing is built again.
GNOMON_FUZZ_SECONDS=${GNOMON_FUZZ_SECONDS:-60} run_tests --workspace --lib --tests fuzz

step "clients"
# The fast ones; GNOMON_CLIENTS=all runs those too that take longer (Java, Rust, pgbench, PgBouncer).
tools/clients/run.py --gnomon-only "${GNOMON_CLIENTS:-fast}"

step "dumps"
tools/dump.py --program target/debug/gnomon

step "PostgreSQL's regression suite"
# The files of core, but for two with minutes of joins that have no index; `tools/regression.py` runs all.
tools/regression.py --optional --program target/debug/gnomon --floor tools/regression.floor core-fast

step "seeded schedules"
RUSTFLAGS="--cfg shuttle" run_tests -p gnomon-engine --lib --target-dir target/shuttle shuttle_

for recovery in shadow value-log single-level two-level two-level-deferred; do
  step "tests of transactions, SQL and seeded schedules, recovery $recovery"
  # All packages are named, so that nothing is built again with other features.
  GNOMON_RECOVERY=$recovery run_tests --workspace --lib -- \
    database:: mvcc:: procedure:: recovery:: replication:: txn:: tests::transactions tests::swapped_files
  GNOMON_RECOVERY=$recovery run_tests --workspace --test sql
  GNOMON_RECOVERY=$recovery RUSTFLAGS="--cfg shuttle" \
    run_tests -p gnomon-engine --lib --target-dir target/shuttle -- tests::schedules::shuttle_ --skip finds
done

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps

step "all passed"
