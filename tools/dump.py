#!/usr/bin/env python3
"""Moves a database between Gnomon and PostgreSQL with PostgreSQL's own pg_dump, pg_dumpall and pg_restore.

  tools/dump.py [--program target/debug/gnomon]

The objects and rows of `tools/dump.sql` are made on both servers. They are dumped from each, in all formats, and restored
into each; a restore must run without an error. Then the rows and the positions of sequences must be those of the origin.
Definitions are compared as pg_dump writes them: where both ends are servers of one kind, also by way of the other kind,
their texts must be equal (PostgreSQL writes expressions that came from Gnomon in its own words). Further: --clean over a
database that has everything, --create, parts of a database (-t, -n, --schema-only, --data-only, --section, lists of
contents), --inserts, --column-inserts, -j and pg_dumpall.

Rows of partitioned tables go by --load-via-partition-root, as the two servers hash in different ways.
"""

import argparse
import contextlib
import difflib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
USER = "gnomon"
# What PostgreSQL does not have.
OWN = """
CREATE TABLE large (a integer PRIMARY KEY, b integer, c integer UNIQUE) WITH (page_size = 16384);
CREATE INDEX ON large (b) WITH (page_size = 8192);
CREATE TABLE everywhere (a integer PRIMARY KEY) WITH (replicated = true);
CREATE TABLE hashed (a integer PRIMARY KEY, b text) PARTITION BY HASH (a) WITH (partitions = 3, page_size = 8192);
CREATE INDEX ON hashed (b);
INSERT INTO hashed SELECT i, 'x' FROM generate_series(1, 20) AS i;
"""
# Options of pg_dump for each format, and of pg_restore.
FORMATS = {
    "plain": (["-Fp"], None),
    "custom": (["-Fc"], ["-j", "2"]),
    "directory": (["-Fd", "-j", "2"], ["-j", "2", "--exit-on-error"]),
    "tar": (["-Ft"], ["--exit-on-error"]),
}


def binary(name):
    """Path of a program of the newest PostgreSQL."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if not found:
        sys.exit("PostgreSQL is missing: apt-get install --no-install-recommends postgresql")
    return str(found[-1] / name)


def run(*command, **options):
    """Output of a command, which must say nothing on its standard error."""
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
    if done.returncode or done.stderr:
        raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


class Database:
    """A database of a server, with the options by which programs find it."""

    def __init__(self, kind, port, name):
        self.kind, self.name, self.rows = kind, name, None
        self.at = ["-h", "127.0.0.1", "-p", str(port), "-U", USER]

    def psql(self, *arguments):
        return run("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *self.at, "-d", self.name, *arguments)

    def dump(self, *options):
        # The key of \\restrict differs from run to run, and a dump names the server's version.
        text = run(binary("pg_dump"), *self.at, "--load-via-partition-root", *options, self.name)
        return re.sub(r"^(\\(un)?restrict .*|-- Dumped (from|by) .*)\n", "", text, flags=re.M)

    def definitions(self):
        return self.dump("--schema-only")

    def data(self):
        """Rows as INSERT statements, and positions of sequences; the rows of a table have no order."""
        if self.rows:
            return self.rows
        statements = self.dump("--data-only", "--inserts", "--rows-per-insert=1").split("\n")
        return sorted(line for line in statements if line and not line.startswith("--"))

    def keep(self):
        """Tells that it does not change any more."""
        self.rows = self.data()

    def restore(self, archive, options):
        if options is None:
            self.psql("-o", os.devnull, "-f", archive)
        else:
            run(binary("pg_restore"), *self.at, "-d", self.name, *options, archive)


class Servers:
    """A PostgreSQL server, and the Gnomon servers that were started: each has one database."""

    def __init__(self, program, directory, stack):
        self.program, self.directory, self.stack = program, directory, stack
        self.count = 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [ROOT / "tools/postgres.sh", "--port", str(self.port), "--set", "fsync=off", "--", "sh", "-c"]
        # It serves until its standard input ends.
        postgres = subprocess.Popen([*command, "echo; cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        stack.callback(postgres.communicate)
        postgres.stdout.readline()

    def new(self, kind):
        self.count += 1
        if kind == "gnomon":
            return self.gnomon(self.directory / f"gnomon{self.count}")
        Database(kind, self.port, "postgres").psql("-c", f"CREATE DATABASE d{self.count}")
        return Database(kind, self.port, f"d{self.count}")

    def gnomon(self, directory):
        directory.mkdir()
        log = directory / "log"
        with log.open("w") as output:
            command = [self.program, "serve", directory / "data", "--port", "0", "--recovery", "value-log"]
            server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        self.stack.callback(server.wait)
        self.stack.callback(server.terminate)
        for _ in range(200):
            if port := re.search(r"127\.0\.0\.1:(\d+)", log.read_text()):
                return Database("gnomon", int(port[1]), "gnomon")
            time.sleep(0.05)
        raise AssertionError(f"the server does not start:\n{log.read_text()}")


def same(what, expected, found):
    if expected != found:
        split = lambda value: value.split("\n") if isinstance(value, str) else value
        lines = difflib.unified_diff(split(expected), split(found), "expected", "found", lineterm="", n=1)
        raise AssertionError(f"{what}:\n" + "\n".join(list(lines)[:60]))


class Moves:
    """The moves of the databases, each a test."""

    def __init__(self, servers, directory):
        self.servers, self.directory = servers, directory
        self.origins = {}
        for kind in ("gnomon", "postgres"):
            self.origins[kind] = servers.new(kind)
            self.origins[kind].psql("-o", os.devnull, "-f", str(ROOT / "tools/dump.sql"))
            self.origins[kind].keep()

    def directions(self):
        """Origins with kinds of targets: all but PostgreSQL into PostgreSQL, which is no matter of Gnomon's."""
        pairs = [(origin, target) for origin in self.origins.values() for target in self.origins]
        return [(origin, target) for origin, target in pairs if "gnomon" in (origin.kind, target)]

    def archive(self, origin, format, *options):
        self.servers.count += 1
        path = str(self.directory / f"archive{self.servers.count}")
        origin.dump(*FORMATS[format][0], *options, "-f", path)
        return path

    def move(self, origin, kind, format="plain"):
        """A new server's database, with what a dump of another restores."""
        moved = self.servers.new(kind)
        moved.restore(self.archive(origin, format), FORMATS[format][1])
        same(f"rows from {origin.kind} to {kind}, {format}", origin.data(), moved.data())
        return moved

    def all_formats(self):
        moved = {}
        for origin, target in self.directions():
            # Of the formats, one is enough where both servers are of one kind.
            for format in FORMATS if target != origin.kind else ["directory"]:
                moved[origin.kind, target, format] = self.move(origin, target, format)
        same_kind = moved["gnomon", "gnomon", "directory"]
        same("definitions of Gnomon", self.origins["gnomon"].definitions(), same_kind.definitions())
        back = self.move(moved["postgres", "gnomon", "plain"], "postgres")
        same("definitions by way of Gnomon", self.origins["postgres"].definitions(), back.definitions())
        through = moved["gnomon", "postgres", "directory"]
        back = self.move(self.move(through, "gnomon", "custom"), "postgres", "tar")
        same("definitions from Gnomon, by way of it", through.definitions(), back.definitions())

    def clean(self):
        for origin, target in self.directions():
            moved = self.move(origin, target)
            before = moved.definitions()
            for format, options in (("plain", None), ("custom", ["--clean", "--if-exists", "-j", "2"])):
                # Of partitions, PostgreSQL itself refuses the statements: it drops no inherited constraint.
                clean = ["-T", "parts*"] + (["--clean", "--if-exists"] if format == "plain" else [])
                moved.restore(self.archive(origin, format, *clean), options)
            same(f"rows after --clean from {origin.kind} to {target}", origin.data(), moved.data())
            same(f"definitions after --clean from {origin.kind} to {target}", before, moved.definitions())

    def parts(self):
        for origin, target in self.directions():
            moved = self.servers.new(target)
            moved.restore(self.archive(origin, "plain", "--schema-only"), None)
            for option in ("--inserts", "--column-inserts"):
                moved.restore(self.archive(origin, "plain", "--data-only", option), None)
                same(f"{option} from {origin.kind} to {target}", origin.data(), moved.data())
                tables = 'items, app.events, app.noted, gone, parts, "Odd Schema"."Odd ""Table"""'
                moved.psql("-c", f"TRUNCATE {tables}")
            part = self.servers.new(target)
            part.restore(self.archive(origin, "plain", "-t", "gone", "-t", "small"), None)
            part.restore(self.archive(origin, "plain", "-n", '"Odd Schema"'), None)
            of_parts = lambda rows: [line for line in rows if re.search("gone|Odd|small", line)]
            same(f"parts of {origin.kind} in {target}", of_parts(origin.data()), of_parts(part.data()))

    def sections(self):
        """Restores section by section: the dumps of each, and those of one archive."""
        for origin, target in self.directions():
            by_dumps, by_restores = self.servers.new(target), self.servers.new(target)
            archive = self.archive(origin, "custom")
            for section in ("pre-data", "data", "post-data"):
                by_dumps.restore(self.archive(origin, "plain", f"--section={section}"), None)
                by_restores.restore(archive, [f"--section={section}", "--exit-on-error"])
            for moved in (by_dumps, by_restores):
                same(f"rows by sections from {origin.kind} to {target}", origin.data(), moved.data())
            same("definitions by sections", by_dumps.definitions(), by_restores.definitions())

    def chosen(self):
        """Restores what a list of an archive's contents leaves in, and then the rows of the tables."""
        for origin, target in self.directions():
            moved, archive = self.servers.new(target), self.archive(origin, "directory")
            contents = run(binary("pg_restore"), "-l", archive).split("\n")
            chosen = self.directory / "chosen"
            chosen.write_text("\n".join(line for line in contents if re.search("gone|small", line)))
            moved.restore(archive, ["-L", str(chosen), "--schema-only", "--no-owner", "--exit-on-error"])
            moved.restore(archive, ["-t", "gone", "-t", "small", "--data-only", "--exit-on-error"])
            part = lambda rows: [line for line in rows if line.startswith("INSERT") and re.search("gone|small", line)]
            same(f"chosen rows of {origin.kind} in {target}", part(origin.data()), part(moved.data()))

    def created(self):
        """A dump that makes its database: only PostgreSQL's server can have another one."""
        path = self.archive(self.origins["gnomon"], "plain", "--create", "--clean", "--if-exists")
        server = Database("postgres", self.servers.port, "postgres")
        made = Database("postgres", self.servers.port, self.origins["gnomon"].name)
        server.psql("-o", os.devnull, "-c", "SET client_min_messages = warning", "-f", path)
        same("rows of a database that was made", self.origins["gnomon"].data(), made.data())

    def own_parameters(self):
        origin = self.servers.new("gnomon")
        origin.psql("-c", OWN)
        moved = self.move(origin, "gnomon", "custom")
        same("definitions with parameters of Gnomon", origin.definitions(), moved.definitions())

    def all_databases(self):
        for kind, origin in self.origins.items():
            dumped = run(binary("pg_dumpall"), *origin.at, "-l", origin.name, "--no-role-passwords")
            assert f"CREATE ROLE {USER};" in dumped and "CREATE TABLE public.items" in dumped, kind


def tests(moves):
    whole = [moves.all_formats, moves.clean, moves.created, moves.all_databases]
    return [*whole, moves.parts, moves.sections, moves.chosen, moves.own_parameters]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--program", default=os.environ.get("GNOMON", ROOT / "target/debug/gnomon"))
    program = Path(arguments.parse_args().program).resolve()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        directory = Path(directory)
        moves = Moves(Servers(program, directory, stack), directory)
        for test in tests(moves):
            test()
            print(f"ok {test.__name__}")
    print(f"{time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    try:
        main()
    except AssertionError as error:
        sys.exit(f"FAILED {error}")
