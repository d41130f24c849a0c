#!/usr/bin/env python3
"""Runs PostgreSQL's regression suite on PostgreSQL and on Gnomon, and compares the answers statement by statement.

  tools/regression.py [--table docs/regression.md] [--floor FILE [--raise]] [--details FILE] [--optional] [NAME...]

NAME is a file of the suite without `.sql`, `core` (the files of scalar types, queries, changes and transactions), or
`core-fast` (those without the ones that take minutes); without names the whole suite runs. The suite is that of Debian's
source package `postgresql-15`, in the version of the installed server; it is fetched once, to target/regression. Each
file starts on both servers from a database in which `test_setup` ran, and what the suite's schedule says that it depends
on. psql sends the statements, and the files that a COPY fills tables from. The settings are those of PostgreSQL's own
driver, but for the styles of dates and intervals, which are the default, and for Gnomon's `statement_timeout`: a
statement that takes too long is cancelled, and the file goes on.

A statement's answer is what psql prints: rows, tags, notices, and errors with their SQLSTATE, position, detail and
hint. Rows of a statement without ORDER BY may have any order, and Gnomon's notices that a setting or clause has no
effect do not count. Of each statement:

  same       the answers are equal
  refused    Gnomon answers 0A000, and names the feature
  plan       an EXPLAIN whose plan is another
  cascade    another answer, and the statement names something that a statement without the same answer made or
             changed (in the text of psql's variables, too), or is in a transaction that such a statement ended, or
             what such a transaction made, or is of a user that only one server has, or the script has left by an
             earlier answer
  different  another answer
  none       cancelled since it took too long, or the connection had ended, or the whole file took too long

The percentages count neither cascades nor plans; the second counts no statement either that is refused for a feature
which is missing as a whole. --table writes the table of files, and one of those features; --details writes each
statement that is not the same, with both answers. --floor compares with the percentages of a file, and fails if one has
become lower or a 42601 stands where PostgreSQL has none, but in statements with psql's variables. `--floor FILE --raise`
writes those that have become higher. With --optional it is no failure if apt has no such source package.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections import Counter
from pathlib import Path

from psql_scripts import (
    Variables,
    split,
    with_end_of_data,
    with_files_of_the_client,
    with_full_errors,
    without_comments,
)

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / "target" / "regression"
PG_PORT = 54331
FILE_SECONDS = 240
STATEMENT_SECONDS = 20
CLASSES = ["same", "refused", "plan", "cascade", "different", "none"]

# The scalar types, queries, DML and transactions.
CORE = """
boolean char name varchar text int2 int4 int8 oid float4 float8 bit numeric txid uuid strings numerology date time
timetz timestamp timestamptz interval select select_into select_distinct select_distinct_on select_implicit
select_having subselect union case join aggregates window with portals portals_p2 prepare prepared_xacts transactions
sequence identity limit insert insert_conflict update delete returning copy2 copyselect namespace truncate
""".split()

# Files of core that take minutes in a debug build.
SLOW = {"join", "aggregates"}
GROUPS = {"core": CORE, "core-fast": [name for name in CORE if name not in SLOW]}

# Features that are missing as a whole, by the messages of statements that are refused for them.
FEATURES = [
    ("temporary tables", r"temporary (table|view|sequence)"),
    ("functions", r"(CREATE|ALTER|DROP) (FUNCTION|AGGREGATE|OPERATOR|LANGUAGE|EXTENSION|ROUTINE)|DO is|language"),
    ("triggers", r"(CREATE|ALTER|DROP) (CONSTRAINT |EVENT )?TRIGGER|TRIGGER is"),
    ("rules", r"(CREATE|ALTER|DROP) RULE"),
    ("data-modifying WITH", r"data-modifying statement in WITH"),
    ("MERGE", r"MERGE"),
    ("inheritance", r"inheritance|INHERIT|typed table|TABLE ... OF"),
    ("CREATE TABLE LIKE", r"CREATE TABLE LIKE"),
    ("partitions", r"PARTITION BY (RANGE|LIST)|partition"),
    ("foreign keys", r"FOREIGN KEY"),
    ("generated columns", r"generated column"),
    ("constraints", r"constraint|CONSTRAINT|EXCLUDE|NO INHERIT|NULLS NOT DISTINCT|NOT VALID"),
    ("kinds of indexes", r"index|operator class|ON CONFLICT"),
    ("materialized views", r"MATERIALIZED VIEW"),
    ("updatable views", r"CHECK OPTION|a view's|a view is"),
    ("roles", r"GRANT|REVOKE|(CREATE|ALTER|DROP|REASSIGN) (ROLE|USER|GROUP|POLICY|OWNED)|ROW LEVEL|DEFAULT PRIVILEGES|SECURITY LABEL"),
    ("TABLESAMPLE", r"TABLESAMPLE"),
    ("bit strings", r"type (bit|varbit)|literal [BX]'"),
    ("time with time zone", r"time with time zone|timetz"),
    ("arrays of several dimensions", r"dimensions|an array of"),
    ("JSON", r"json"),
    ("XML", r"xml|XML|DOCUMENT"),
    ("money", r"money"),
    ("enums, domains, composite types, casts", r"(CREATE|ALTER|DROP) (TYPE|DOMAIN|CAST|COLLATION|CONVERSION)|composite"),
    ("ranges", r"range"),
    ("geometric types", r"type (point|line|lseg|box|path|polygon|circle)"),
    ("network types", r"type (inet|cidr|macaddr8?)|inet|network"),
    ("full-text search", r"tsvector|tsquery|TEXT SEARCH|function (ts_|to_ts)"),
    ("LISTEN", r"LISTEN|NOTIFY|pg_notify"),
    ("large objects", r"LARGE OBJECT|function lo_"),
    ("statistics objects", r"STATISTICS"),
    ("foreign data", r"FOREIGN (DATA|TABLE|SERVER)|SERVER|USER MAPPING"),
    ("logical replication", r"PUBLICATION|SUBSCRIPTION|replication"),
    ("storage of a table", r"SET (STORAGE|LOGGED|UNLOGGED|TABLESPACE|ACCESS METHOD|COMPRESSION)|TABLESPACE|COMPRESSION"),
]

# From the comments of the suite's parallel_schedule.
DEPENDS = {
    "multirangetypes": ["rangetypes"],
    "geometry": ["point", "lseg", "line", "box", "path", "polygon", "circle"],
    "horology": ["date", "time", "timetz", "timestamp", "timestamptz", "interval"],
    "aggregates": ["create_aggregate"],
    "join": ["create_misc"],
    "psql": ["create_am"],
    "amutils": ["geometry", "create_index_spgist", "hash_index", "brin"],
    "select_parallel": ["create_misc"],
    "select_views": ["create_view"],
    "with": ["create_misc"],
}


def fail(message):
    print(f"regression: {message}", file=sys.stderr)
    sys.exit(1)


# The suite


class Unavailable(Exception):
    """apt does not give the source package."""


def fetch_suite():
    """Returns the folder of the suite, fetched from Debian's source package if it is not there."""
    version = subprocess.run(
        ["dpkg-query", "-W", "-f", "${source:Version}", "postgresql-15"], capture_output=True, text=True
    )
    if version.returncode != 0:
        fail("PostgreSQL 15 is missing: apt-get install --no-install-recommends postgresql-15")
    version = version.stdout.strip()
    suite = CACHE / f"suite-{version}"
    if suite.exists():
        return suite
    print(f"fetching the source package postgresql-15 {version}", file=sys.stderr)
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        work = Path(work)
        # The system's sources, of source packages, with lists of their own: nothing of the system changes.
        parts = work / "parts"
        (work / "lists" / "partial").mkdir(parents=True)
        parts.mkdir()
        found = False
        for path in Path("/etc/apt").glob("sources.list.d/*.sources"):
            text = path.read_text()
            if re.search(r"^URIs:.*debian", text, re.M):
                (parts / path.name).write_text(re.sub(r"^Types:.*$", "Types: deb-src", text, flags=re.M))
                found = True
        lines = [
            re.sub(r"^deb\s", "deb-src ", line)
            for path in [Path("/etc/apt/sources.list"), *Path("/etc/apt").glob("sources.list.d/*.list")]
            if path.exists()
            for line in path.read_text().splitlines()
            if re.match(r"deb\s.*debian", line)
        ]
        if lines:
            (parts / "lines.list").write_text("\n".join(lines) + "\n")
        if not (found or lines):
            raise Unavailable("apt has no Debian sources in /etc/apt")
        apt = [
            "apt-get", "-qq",
            "-o", "Dir::Etc::sourcelist=/dev/null",
            "-o", f"Dir::Etc::sourceparts={parts}",
            "-o", f"Dir::State::lists={work / 'lists'}",
            "-o", "APT::Sandbox::User=root",
        ]  # fmt: skip
        for command in [["update"], ["source", "--download-only", f"postgresql-15={version}"]]:
            done = subprocess.run(apt + command, cwd=work, capture_output=True, text=True)
            if done.returncode != 0:
                raise Unavailable(f"apt-get {command[0]} failed: {done.stderr.strip()}")
        archive = next(work.glob("*.orig.tar.*"))
        subprocess.run(
            ["tar", "-xf", archive, "--strip-components=4", "--wildcards", "*/src/test/regress/*"], cwd=work, check=True
        )
        made = work / "suite"
        made.mkdir()
        for part in ["sql", "data", "parallel_schedule"]:
            (work / part).rename(made / part)
        made.rename(suite)
    return suite


def schedule(suite):
    """Returns the names of the suite's files in their order."""
    names = []
    for line in (suite / "parallel_schedule").read_text().splitlines():
        if line.startswith("test: "):
            names += line.removeprefix("test: ").split()
    return [name for name in names if (suite / "sql" / f"{name}.sql").exists()]


# Servers and psql


@dataclasses.dataclass
class Server:
    port: int
    user: str


class Gnomon:
    """A server of a new database, which goes with it."""

    def __init__(self, program, parent):
        self.directory = tempfile.mkdtemp(prefix="regression-", dir=parent)
        self.log = open(f"{self.directory}/log", "w+")
        self.process = subprocess.Popen(
            [program, "serve", f"{self.directory}/db", "--port", "0"], stdout=self.log, stderr=subprocess.STDOUT
        )
        for _ in range(200):
            text = Path(f"{self.directory}/log").read_text()
            if found := re.search(r"^serving .* on 127\.0\.0\.1:(\d+)", text, re.M):
                self.port = int(found[1])
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.stop()
        fail(f"Gnomon does not start: {text}")

    def stop(self):
        """Ends the server. Returns false if it had ended by itself."""
        ran = self.process.poll() is None
        if ran:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory)
        return ran


def environment(suite, results):
    """Returns the environment of psql."""
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "TMPDIR")}
    return kept | {
        "PGTZ": "PST8PDT",
        "PG_ABS_SRCDIR": str(suite),
        "PG_ABS_BUILDDIR": str(results),
        "PG_LIBDIR": str(suite),
        "PG_DLSUFFIX": ".so",
        "LC_MESSAGES": "C",
        "LANG": "C.UTF-8",
        "PGAPPNAME": "regression",
    }


def with_statement_timeout(env):
    """Gives sessions a default, which a script may set to something else, and which RESET and DISCARD return to."""
    return env | {"PGOPTIONS": f"-c statement_timeout={STATEMENT_SECONDS}s"}


def is_out_of_time(answer):
    return re.search(r"^ERROR:  57014: canceling statement due to statement timeout$", answer, re.M)


def psql(server, database, script, env):
    """Starts psql with a script as its input; everything that it prints comes in one stream."""
    command = [
        "psql", "-X", "-q", "-h", "127.0.0.1", "-p", str(server.port), "-U", server.user, "-d", database,
        "-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on", "-v", "VERBOSITY=verbose",
    ]  # fmt: skip
    return subprocess.Popen(
        command, stdin=open(script), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
        encoding="utf-8", errors="backslashreplace",
    )  # fmt: skip


def answers(process, count):
    """Returns the answers to the pieces of a script, and true if the script has ended psql by itself; fewer answers if
    psql did not come to its end in time."""
    try:
        output, _ = process.communicate(timeout=FILE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    has_quit = process.returncode == 0
    # A piece that leaves the output redirected has no mark; its answer goes with the next.
    found, before = {}, 0
    for mark in re.finditer(r"@@piece (\d+)@@\n", output):
        found[int(mark[1])] = output[before : mark.start()]
        before = mark.end()
    last = max(found, default=-1)
    return [found.get(number, "" if number < last else None) for number in range(count)], has_quit


# Comparison


# Both servers have databases, files and processes of their own.
PLACES = [
    (re.compile(r"^LOCATION:.*\n", re.M), ""),
    (re.compile(r"^NOTICE:.* has no effect.*\n(?:DETAIL:.*\n)?", re.M), ""),
    (re.compile(r"\bregression_\w+\b"), "DATABASE"),
    (re.compile(r"\btemp_\d+\b|pg_temp_\d+\b|pg_toast_\d+\b"), "NUMBERED"),
    (re.compile(r"\bPID \d+\b"), "PID"),
    (re.compile(r"^invalid command \\\.\n", re.M), ""),
]


def plain(answer):
    for pattern, text in PLACES:
        answer = pattern.sub(text, answer)
    return answer


def states(answer):
    return re.findall(r"^(?:ERROR|FATAL|PANIC):  (\w{5}):", answer, re.M)


def same(piece, expected, found):
    if expected == found:
        return True
    # What stands in parentheses orders the rows of another query, or those of an aggregate.
    outside, inside = piece, None
    while outside != inside:
        outside, inside = re.sub(r"\([^()]*\)", "", outside), outside
    is_ordered = re.search(r"\border\s+by\b|\\d|\bfetch\b", outside, re.I)
    if is_ordered or states(expected) or states(found):
        return False
    return sorted(expected.splitlines()) == sorted(found.splitlines())


# Words that may stand where a name is looked for.
KEYWORDS = {"cascade", "from", "no", "nowait", "of", "on", "only", "or", "public", "restrict", "select", "set", "skip"}
MADE = re.compile(
    r"""
    \b(?:create|alter|drop|comment\s+on)\s+(?:(?:or\s+replace|temp|temporary|unlogged|unique|recursive|materialized|
        global|local|constraint|event|foreign|default|trusted|procedural)\s+)*
        (?:table|view|index|sequence|function|procedure|routine|aggregate|type|domain|schema|operator\s+class|
        operator\s+family|operator|cast|trigger|rule|policy|role|user|group|database|extension|server|statistics|
        collation|conversion|language|publication|subscription|tablespace|text\s+search\s+\w+|access\s+method|
        data\s+wrapper|
        transform|large\s+object)\s+
        (?:concurrently\s+)?(?:if\s+(?:not\s+)?exists\s+)?(?:only\s+)?(?P<made>[\w."$]+(?:\s*,\s*[\w."$]+)*)
    | \binsert\s+into\s+(?P<into>[\w."$]+)
    | (?<!on\ )(?<!for\ )(?<!key\ )(?<!or\ )(?<!do\ )(?<!before\ )(?<!after\ )
        \bupdate\s+(?:only\s+)?(?P<changed>[\w."$]+)
    | \bdelete\s+from\s+(?:only\s+)?(?P<emptied>[\w."$]+)
    | \bmerge\s+into\s+(?:only\s+)?(?P<merged>[\w."$]+)
    | \btruncate\s+(?:table\s+)?(?:only\s+)?(?P<truncated>[\w."$]+)
    | \bcopy\s+(?P<copied>[\w."$]+)
    | \bprepare\s+(?!transaction\b)(?P<prepared>[\w"$]+)
    | \bdeclare\s+(?P<cursor>[\w"$]+)
    | \bselect\b[^;]*?\binto\s+(?:temp(?:orary)?\s+|unlogged\s+)?(?:table\s+)?(?P<selected>[\w."$]+)
    | \bsavepoint\s+(?P<savepoint>[\w"$]+)
    | \bprepare\s+transaction\s+'(?P<gid>[^']*)'
    | \b(?:create|drop)\s+operator\s+(?:\w+\.)?(?P<operator>[-+*/<>=~!@\#%^&|`?]+)
    """,
    re.X | re.I,
)
# A table changes with its children, indexes, triggers, rules and policies, and those that refer to it.
ATTACHED = re.compile(
    r"""
    \brename\s+to\s+(?P<renamed>[\w."$]+)
    | \binherits\s*\(\s*(?P<parents>[\w."$]+(?:\s*,\s*[\w."$]+)*)
    | \binherit\s+(?P<parent>[\w."$]+)
    | \bpartition\s+of\s+(?P<whole>[\w."$]+)
    | \battach\s+partition\s+(?P<part>[\w."$]+)
    | \breferences\s+(?P<referenced>[\w."$]+)
    | \bcreate\s+(?:or\s+replace\s+|unique\s+|constraint\s+)*(?:index|trigger|rule|policy)\b[^;]*?
        \bon\s+(?:(?:select|insert|update|delete)\s+to\s+)?(?:only\s+)?(?P<on>[\w."$]+)
    """,
    re.X | re.I,
)


def made_names(text):
    """Returns names that a statement makes or changes, lower-case and without their schemas."""
    names = set()
    for found in [*MADE.finditer(text), *ATTACHED.finditer(text)]:
        for group in found.groupdict().values():
            for name in re.split(r"\s*,\s*", group or ""):
                name = name.split(".")[-1].strip('"').lower()
                if name and name not in KEYWORDS:
                    names.add(name)
    # With a range comes the type of several.
    names |= {name.replace("range", "multirange") for name in names if re.search(r"\bas\s+range\b", text)}
    return names


# The endings of names that PostgreSQL makes from a table's.
DERIVED = re.compile(r"_(?:pkey|key|idx|seq|excl|check|fkey|ccnew)\d*$")


def names_one_of(words, tainted):
    """Returns true if one of the words is one of the names, or made from one by the server."""
    derived = [word for word in words if DERIVED.search(word)]
    return bool(words & tainted) or any(word.startswith(f"{name}_") for word in derived for name in tainted)


class User:
    """The user whom a script has made itself: another one if only one server has it."""

    SET = re.compile(r"\s*(?:set\s+(?:session\s+authorization|(?:session\s+|local\s+)?role)|\\c)\b")
    RESET = re.compile(r"\s*reset\s+(?:session\s+authorization|role)\b")

    def __init__(self):
        self.is_other = False

    def follow(self, text, is_same):
        """Takes up a statement."""
        if self.SET.match(text):
            self.is_other = not is_same
        elif self.RESET.match(text):
            self.is_other = False


class Block:
    """The transaction block that a script is in: an error that only one server has takes back the block there."""

    BEGIN = re.compile(r"\s*(?:begin|start\s+transaction)\b")
    END = re.compile(r"\s*(?:commit|rollback|abort|end|prepare\s+transaction)\b(?!\s+(?:prepared|to)\b)")

    def __init__(self):
        self.is_open = False
        # True if only one server has taken back the block, until the next one.
        self.is_astray = False
        self.made = set()

    def follow(self, text, made, is_error_of_one):
        """Takes up a statement. Returns the names that are not the same because of it."""
        begins = any(self.BEGIN.match(part) for part in text.split("\\;"))
        if begins:
            self.is_open, self.is_astray, self.made = True, False, set()
        self.made |= made
        lost = set()
        if is_error_of_one and self.is_open:
            self.is_astray = True
            lost = self.made
        if self.END.match(text.split("\\;")[-1]):
            self.is_open = False
        return lost


def classify(pieces, expected, found, has_quit):
    """Yields the class of each piece. `has_quit` tells that the script has ended psql, by an earlier answer."""
    # The names that are not as they are in PostgreSQL.
    tainted = set()
    variables = Variables()
    block, user = Block(), User()
    for piece, right, given in zip(pieces, expected, found):
        variables.set_by(piece)
        if right is None:
            # There is nothing to compare with.
            yield None
            continue
        if given is None:
            yield "cascade" if has_quit else "none"
            continue
        right, given = plain(right), plain(given)
        text = variables.expand(without_comments(piece)).lower()
        made = made_names(text)
        ended_astray = block.is_astray and block.END.match(text)
        tainted |= block.follow(text, made, bool(states(given)) != bool(states(right)))
        was_other = user.is_other
        is_same = same(piece, right, given)
        user.follow(text, is_same)
        if is_same:
            yield "same"
            continue
        if is_out_of_time(given) and not is_out_of_time(right):
            tainted |= made
            yield "none"
            continue
        words = set(re.findall(r"[\w$]+|[-+*/<>=~!@#%^&|`?]+", text)) | set(re.findall(r"'([^'\s]*)'", text))
        # The variables that psql is given by an answer.
        if re.search(r"\\gset\b", piece):
            made.add(":")
        if re.search(r"(?<!:):['\"{]?[a-z_]", text):
            words.add(":")
        new_states = [state for state in states(given) if state not in states(right)]
        if "0A000" in new_states:
            kind = "refused"
        elif "25P02" in new_states or names_one_of(words, tainted) or ended_astray or was_other:
            kind = "cascade"
        elif re.match(r"\s*explain\b", text) and not new_states and not states(right):
            kind = "plan"
        else:
            kind = "different"
        if kind != "plan":
            tainted |= made
        yield kind


@dataclasses.dataclass
class Result:
    name: str
    classes: Counter
    syntax: int
    ended: bool
    # Statements that are refused for a feature that is missing as a whole.
    features: Counter = dataclasses.field(default_factory=Counter)


def run(suite, name, program, parent, details):
    """Runs a file on both servers."""
    results = Path(tempfile.mkdtemp(prefix="results-", dir=parent))
    (results / "results").mkdir()
    os.chmod(results, 0o777)
    os.chmod(results / "results", 0o777)
    files = ["test_setup", *DEPENDS.get(name, []), name]
    if name == "test_setup":
        files = [name]
    pieces, of_name = [], 0
    for file in files:
        of_name = len(pieces)
        text = (suite / "sql" / f"{file}.sql").read_text(encoding="utf-8", errors="surrogateescape")
        pieces += split(with_full_errors(with_files_of_the_client(text, suite)))
        pieces.append("\\c -\n")
    pieces.pop()
    script = results / "script.sql"
    # After each piece: nothing is left of it in psql, and a mark.
    text = "".join(f"{with_end_of_data(piece)}\\r\n\\echo @@piece {number}@@\n" for number, piece in enumerate(pieces))
    script.write_text(text, encoding="utf-8", errors="surrogateescape")
    database = f"regression_{name}"
    url = urllib.parse.urlsplit(os.environ["GNOMON_PG_URL"])
    postgres = Server(url.port, url.username)
    admin = ["psql", "-X", "-q", "-h", "127.0.0.1", "-p", str(url.port), "-U", url.username, "-d", "postgres", "-c"]
    locale = "TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    subprocess.run(admin + [f'CREATE DATABASE "{database}" {locale}'], check=True)
    env = environment(suite, results)
    gnomon = Gnomon(program, parent)
    begun = time.monotonic()
    processes = []
    try:
        processes.append(psql(postgres, database, script, env))
        processes.append(psql(Server(gnomon.port, "gnomon"), database, script, with_statement_timeout(env)))
        # Both at a time: neither waits for the other's output to be read.
        with concurrent.futures.ThreadPoolExecutor() as pool:
            (expected, _), (found, has_quit) = pool.map(lambda process: answers(process, len(pieces)), processes)
    finally:
        for process in processes:
            process.kill()
        ran = gnomon.stop()
        # A prepared transaction keeps it; it goes with the server.
        subprocess.run(admin + [f'DROP DATABASE "{database}" WITH (FORCE)'], stderr=subprocess.DEVNULL)
    shutil.rmtree(results)
    kinds = list(classify(pieces, expected, found, has_quit))
    result = Result(name, Counter(filter(None, kinds[of_name:])), 0, not ran)
    if None in kinds:
        print(f"{name}: PostgreSQL has no answer from statement {kinds.index(None) - of_name} on", file=sys.stderr)
    for number in range(of_name, len(pieces)):
        right, given = plain(expected[number] or ""), plain(found[number] or "")
        new_states = [state for state in states(given) if state not in states(right)]
        # Lines of data come as statements where a COPY has failed.
        is_statement = re.match(r"[A-Za-z(]", without_comments(pieces[number]))
        # With a variable that an answer has given, psql may have sent other text to each server.
        has_variable = re.search(r"(?<!:):['\"{]?[A-Za-z_]", pieces[number])
        # Of a relation that is another one, a statement may have too many values.
        is_known = kinds[number] == "cascade" and not re.search(r"^ERROR:  42601: syntax error", given)
        is_misread = new_states[:1] == ["42601"] and not states(right) and not has_variable and not is_known
        result.syntax += bool(is_statement) and is_misread
        if kinds[number] == "refused" and (feature := missing_feature(given)):
            result.features[feature] += 1
        if details and kinds[number] not in ("same", None):
            details.write(f"==== {name} {number - of_name}: {kinds[number]}\n{without_comments(pieces[number])}\n")
            details.write(f"---- PostgreSQL\n{right}---- Gnomon\n{given}")
    took = time.monotonic() - begun
    counts = " ".join(f"{kind} {result.classes[kind]}" for kind in CLASSES if result.classes[kind])
    ended = "; THE SERVER ENDED" if result.ended else ""
    print(f"{name:24} {percent(result.classes):5.1f} %  {counts}  {took:.1f} s{ended}", flush=True)
    return result


def percent(classes):
    """Returns what is the same of what is not a cascade or a plan, in per cent."""
    counted = sum(count for kind, count in classes.items() if kind not in ("cascade", "plan"))
    return 100 * classes["same"] / counted if counted else 100.0


def missing_feature(answer):
    """Returns the feature that a statement is refused for, if it is one that is missing as a whole."""
    message = re.search(r"^ERROR:  0A000: (.*)", answer, re.M)
    named = (name for name, pattern in FEATURES if message and re.search(pattern, message[1]))
    return next(named, None)


def percent_of_features(classes, features):
    """Returns what is the same of what is not refused for a missing feature, in per cent."""
    return percent(classes - Counter(refused=features.total()))


def table(results):
    """Returns the tables as Markdown: of the files, and of the missing features."""
    head = ["file", "statements", *CLASSES, "42601", "% same", "% same without missing features"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]

    def line(name, classes, features, syntax):
        cells = [name, sum(classes.values()), *(classes[kind] for kind in CLASSES), syntax, f"{percent(classes):.1f}"]
        cells.append(f"{percent_of_features(classes, features):.1f}")
        lines.append("| " + " | ".join(map(str, cells)) + " |")

    for result in results:
        line(result.name, result.classes, result.features, result.syntax)
    for name, chosen in [("core", [r for r in results if r.name in CORE]), ("all", results)]:
        classes = sum((r.classes for r in chosen), Counter())
        features = sum((r.features for r in chosen), Counter())
        line(f"**{name}**", classes, features, sum(r.syntax for r in chosen))
    lines += ["", "| missing feature | statements refused for it | files of core |", "|---|---|---|"]
    for feature, count in sum((r.features for r in results), Counter()).most_common():
        files = [f"{r.name} {r.features[feature]}" for r in results if r.name in CORE and r.features[feature]]
        lines.append(f"| {feature} | {count} | {', '.join(files)} |")
    return "\n".join(lines) + "\n"


def check_floor(path, results, raise_it):
    """Compares with the floor; returns messages about what is below it."""
    floor = {}
    if path.exists():
        for line in path.read_text().splitlines():
            name, least = line.split()
            floor[name] = float(least)
    below = []
    for result in results:
        now = round(percent(result.classes), 1)
        if result.ended:
            below.append(f"{result.name}: the server ended")
        if result.syntax:
            below.append(f"{result.name}: {result.syntax} statements get 42601 that PostgreSQL reads")
        if result.classes["none"]:
            below.append(f"{result.name}: a statement has no answer")
        if now < floor.get(result.name, 0.0):
            below.append(f"{result.name}: {now} % are the same, {floor[result.name]} % were")
        floor[result.name] = max(now, floor.get(result.name, 0.0))
    if raise_it:
        path.write_text("".join(f"{name} {floor[name]:.1f}\n" for name in sorted(floor)))
    return below


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--program", default=ROOT / "target" / "release" / "gnomon", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--details", type=Path)
    parser.add_argument("--floor", type=Path)
    parser.add_argument("--raise", dest="raise_it", action="store_true")
    parser.add_argument("--optional", action="store_true")
    arguments = parser.parse_args()
    if arguments.table and (arguments.names or not arguments.table.exists()):
        parser.error("--table writes the table of the whole suite into a page that is there")
    if arguments.raise_it and not arguments.floor:
        parser.error("--raise needs --floor")
    if not arguments.program.exists():
        fail(f"{arguments.program} is missing: cargo build --release -p gnomon-cli, or --program")
    if "GNOMON_PG_URL" not in os.environ:
        server = [ROOT / "tools" / "postgres.sh", "--port", str(PG_PORT), "--set", "max_prepared_transactions=2", "--"]
        sys.exit(subprocess.run([*server, sys.executable, *sys.argv]).returncode)
    try:
        suite = fetch_suite()
    except Unavailable as error:
        if not arguments.optional:
            fail(str(error))
        print(f"regression: not run, since the suite cannot be fetched: {error}", file=sys.stderr)
        return
    all_names = schedule(suite)
    names = []
    for name in arguments.names or all_names:
        if name not in GROUPS and name not in all_names:
            fail(f"the suite has no file {name}")
        names += GROUPS.get(name, [name])
    parent = tempfile.mkdtemp(prefix="regression-")
    os.chmod(parent, 0o755)
    # PostgreSQL's server reads the suite's data as another user.
    readable = Path(parent) / "suite"
    shutil.copytree(suite, readable)
    details = open(arguments.details, "w") if arguments.details else None
    try:
        results = [run(readable, name, arguments.program, parent, details) for name in names]
    finally:
        shutil.rmtree(parent)
        if details:
            details.close()
    text = table(results)
    print(text, end="")
    if arguments.table:
        page = arguments.table.read_text()
        head = page.split("\n| file |")[0].rstrip()
        arguments.table.write_text(f"{head}\n\n{text}")
    below = check_floor(arguments.floor, results, arguments.raise_it) if arguments.floor else []
    for message in below:
        print(f"regression: {message}", file=sys.stderr)
    sys.exit(1 if below else 0)


if __name__ == "__main__":
    main()
