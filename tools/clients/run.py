#!/usr/bin/env python3
"""Runs the scenarios of real clients against PostgreSQL and against Gnomon.

  tools/clients/run.py [--gnomon-only | --postgres-only] [--table] [--raise] [NAME...]

NAME is a client (psycopg), a group (python, node, go, ruby, psql, catalogs, java, rust, pgbench, pgbouncer), `fast`
(the default: the groups that start quickly) or `all`. Clients are installed under target/clients, in the versions that
the files of this folder pin. Each client has a script whose scenarios a user of the client would write, and gets a new
database. The script prints a line for each scenario:

  version V                the client's version
  ok NAME                  the scenario passed
  FAIL NAME: ERROR         it did not; lines that begin with two spaces are details

Every scenario must pass on PostgreSQL. On Gnomon those must pass that expected.tsv says pass; --raise writes those that
pass now, and scenarios that are new; --lower also those that fail now. --table writes docs/clients.md, of `all`.
--details FILE writes the errors with their details, --statements FILE each statement that the server refused, with the
client, the number of times and the error (also of those that a scenario expects). --only TEXT runs the scenarios whose
names contain TEXT, and compares with no expected results. --record writes the answers of PostgreSQL that `psql`,
`catalogs` and `pgjdbc` compare with.
"""

import argparse
import concurrent.futures
import contextlib
import os
import subprocess
import sys
import time

import install
import results
import servers
import wire

CLIENT_SECONDS = 600
TABLE = servers.ROOT / "docs/clients.md"


def run_client(server, client, options):
    """Returns the version of a client and the results of its scenarios."""
    setup, command, _ = install.GROUPS[install.group_of(client)]
    started = time.monotonic()
    try:
        setup()
        with server.database(client) as url, failed_statements(url, client, options) as url:
            version, found = run_script(client, command(client), url, options)
    except (install.InstallError, servers.ServerError, subprocess.CalledProcessError) as error:
        version, found = "", [results.Result(client, results.WHOLE, False, str(error).splitlines()[0], str(error))]
    passed = sum(result.passed for result in found)
    seconds = time.monotonic() - started
    lines = [f"{server.name} {client} {version}: {passed}/{len(found)} in {seconds:.1f} s"]
    lines += [f"  FAIL {result.scenario}: {result.error}" for result in found if not result.passed]
    print("\n".join(lines), flush=True)
    return version, found


@contextlib.contextmanager
def failed_statements(url, client, options):
    """Gives a URL of the same server, by way of a proxy if its failed statements are to be written."""
    if not options.statements:
        yield url
        return
    proxy = wire.Proxy(url)
    yield proxy.url
    proxy.close()
    with open(options.statements, "a") as out:
        for (statement, error), count in proxy.failed.most_common():
            out.write(f"{client}\t{count}\t{error}\t{statement}\n")


def run_script(client, command, url, options):
    variables = {"CLIENT_URL": url, "CLIENT_ONLY": options.only, "NODE_PATH": str(install.CACHE / "node/node_modules")}
    if options.record:
        variables["CLIENT_RECORD"] = "1"
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=install.HERE,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        out, errors = process.communicate(timeout=CLIENT_SECONDS)
        end = None if process.returncode == 0 else f"exit code {process.returncode}"
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate()
        end = f"no end after {CLIENT_SECONDS} s"
    version, found = results.parse(client, out)
    if end or not found:
        last = (errors.strip().splitlines() or ["no output"])[-1]
        found.append(results.Result(client, results.WHOLE, False, f"{end or 'no scenario'}: {last}", errors))
    return version, found


def run_all(server, clients, options):
    """Runs clients, some at a time; returns versions by client, and all results in the clients' order."""
    with server, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        answers = list(pool.map(lambda client: run_client(server, client, options), clients))
    versions = {client: version for client, (version, _) in zip(clients, answers, strict=True)}
    return versions, [result for _, found in answers for result in found]


def write_details(path, found):
    with open(path, "w") as out:
        for result in found:
            if not result.passed:
                out.write(f"== {result.client}: {result.scenario}\n{result.error}\n{result.details}\n")


def judge(clients, versions, found, options):
    """Compares the results on Gnomon with the expected ones, and writes what the options ask for."""
    if options.details:
        write_details(options.details, found)
    if options.only:
        return all(result.passed for result in found)
    expected = results.read_expected()
    if options.raise_floor or options.lower:
        expected = results.raised(found, expected, options.lower)
        results.write_expected(expected)
    lost, gained = results.compare(found, expected)
    for result in gained:
        print(f"{result.client}: {result.scenario} passes now: --raise keeps it")
    for result in lost:
        print(f"{result.client}: {result.scenario} should pass: {result.error}")
    if options.table:
        TABLE.write_text(results.table(clients, versions, found, expected))
    return not lost


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["fast"])
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--gnomon-only", action="store_true", help="leave out PostgreSQL")
    where.add_argument("--postgres-only", action="store_true", help="leave out Gnomon")
    default = os.environ.get("GNOMON", servers.ROOT / "target/debug/gnomon")
    parser.add_argument("--program", default=default, help="the program, else $GNOMON, else target/debug/gnomon")
    parser.add_argument("--url", help="the URL of a running Gnomon with an empty database")
    parser.add_argument("--port", type=int, default=54328, help="the port of the PostgreSQL server")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="clients at a time")
    parser.add_argument("--only", default="", metavar="TEXT", help="scenarios whose names contain TEXT")
    parser.add_argument("--details", metavar="FILE", help="write the errors on Gnomon")
    parser.add_argument("--statements", metavar="FILE", help="add the statements that fail to a file")
    parser.add_argument("--table", action="store_true", help="write docs/clients.md")
    parser.add_argument("--raise", dest="raise_floor", action="store_true", help="expect what passes now")
    parser.add_argument("--lower", action="store_true", help="also expect failures of what fails now")
    parser.add_argument("--record", action="store_true", help="write the answers of PostgreSQL to compare with")
    options = parser.parse_args()
    if options.record and not options.postgres_only:
        parser.error("--record needs --postgres-only")
    if options.table and options.names != ["all"]:
        parser.error("--table needs all")
    if options.url:
        options.jobs = 1
        options.gnomon_only = True
    return options


def main():
    options = parse_options()
    try:
        clients = install.select(options.names)
    except install.InstallError as error:
        sys.exit(f"run.py: {error}")
    if not (options.postgres_only or options.url or os.access(options.program, os.X_OK)):
        sys.exit(f"run.py: {options.program} is missing: cargo build -p gnomon-cli")
    good = True
    if not options.gnomon_only:
        _, found = run_all(servers.Postgres(options.port), clients, options)
        if options.details and options.postgres_only:
            write_details(options.details, found)
        good = all(result.passed for result in found)
        print(f"PostgreSQL: {sum(result.passed for result in found)} of {len(found)} scenarios pass")
    if not options.postgres_only:
        server = servers.Url(options.url) if options.url else servers.Gnomon(options.program)
        versions, found = run_all(server, clients, options)
        good = judge(clients, versions, found, options) and good
        print(f"Gnomon: {sum(result.passed for result in found)} of {len(found)} scenarios pass")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
