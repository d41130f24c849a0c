"""Results of scenarios: the protocol of client scripts, the expected results, the table of docs/clients.md."""

import collections
import dataclasses
import re
from pathlib import Path

EXPECTED = Path(__file__).resolve().parent / "expected.tsv"
WHOLE = "(all scenarios)"

# The feature that a failed scenario lacks, by its error; the first that matches.
FEATURES = [
    ("foreign keys", r"foreign[- ]key|\breferences\b"),
    ("partitions", r"partition"),
    ("full-text search", r"tsvector|tsquery|full[- ]text|^\\dF"),
    ("json", r"json"),
    ("ranges", r"range"),
    ("network types", r"\binet\b|\bcidr\b|macaddr|network"),
    ("temporary tables", r"temporary|\btemp\b"),
    ("LISTEN", r"listen|notify"),
    ("large objects", r"\blo_|large object"),
    ("enums", r"\benum"),
    ("composite types", r"composite"),
    ("domains", r"domain"),
    ("enums", r"create type|drop type"),
    ("triggers", r"trigger"),
    ("row-level security", r"row level security|policies"),
    ("roles", r"\bcreate role|\bregrole|pg_has_role|parameter \"role\""),
    ("functions", r"create function|plpgsql|\bdo is not|\bfunction \"|callable statement of a function"),
    ("publications", r"publication"),
    ("extended statistics", r"create statistics"),
    ("kinds of indexes", r"partial index|index on an expression|condition on an index"),
    ("generated columns", r"generated column"),
    ("inheritance", r"inherit"),
    ("materialized views", r"materialized"),
    ("MERGE", r"merge"),
    ("arrays", r"array|\bunnest\b"),
    ("points and others", r"\bpoint\b"),
    ("catalogs", r"pg_|information_schema|regclass|reg[a-z]+\"|system column|catalog|metadata|drizzle-kit|line \d+: "),
]


@dataclasses.dataclass
class Result:
    """A scenario of a client: whether it passed, and the error otherwise."""

    client: str
    scenario: str
    passed: bool
    error: str = ""
    details: str = ""


@dataclasses.dataclass
class Expected:
    """The result that a scenario has on Gnomon, and the feature that a failed one lacks."""

    passes: bool
    feature: str = ""


def parse(client, output):
    """Reads what a client script prints: its version, and a result for each scenario.

    `version V`, `ok NAME`, `FAIL NAME: ERROR`; lines after a failure that begin with two spaces are its details.
    """
    version, results = "", []
    for line in output.splitlines():
        if line.startswith("version "):
            version = line.removeprefix("version ")
        elif line.startswith("ok "):
            results.append(Result(client, line.removeprefix("ok "), True))
        elif line.startswith("FAIL ") and ": " in line:
            name, error = line.removeprefix("FAIL ").split(": ", 1)
            results.append(Result(client, name, False, error.strip()))
        elif line.startswith("  ") and results and not results[-1].passed:
            results[-1].details += line[2:] + "\n"
    return version, results


def guess_feature(result):
    """The feature that the scenario or the error names, or else the details."""
    for text in [f"{result.error} {result.scenario}", result.details]:
        for name, pattern in FEATURES:
            if re.search(pattern, text, re.IGNORECASE):
                return name
    return "other"


def read_expected():
    """Returns the expected results by client and scenario."""
    expected = {}
    if EXPECTED.exists():
        for line in EXPECTED.read_text().splitlines():
            if line and not line.startswith("#"):
                client, scenario, result, *feature = line.split("\t")
                expected[client, scenario] = Expected(result == "passes", feature[0] if feature else "")
    return expected


def write_expected(expected):
    lines = ["# The results of scenarios on Gnomon: client, scenario, result, and the feature that a failed one lacks."]
    for (client, scenario), row in sorted(expected.items()):
        lines.append("\t".join([client, scenario, "passes" if row.passes else "fails", row.feature]).rstrip())
    EXPECTED.write_text("\n".join(lines) + "\n")


def compare(results, expected):
    """Returns the scenarios that fail and should pass, and those that pass and should fail."""
    lost, gained = [], []
    reached = {(result.client, result.scenario) for result in results}
    for result in results:
        row = expected.get((result.client, result.scenario))
        if result.passed and (row is None or not row.passes):
            gained.append(result)
        if not result.passed and (row is None or row.passes):
            lost.append(result)
    clients = {result.client for result in results}
    for (client, scenario), row in expected.items():
        if client in clients and row.passes and (client, scenario) not in reached:
            lost.append(Result(client, scenario, False, "the scenario was not reached"))
    return lost, gained


def raised(results, expected, lower=False):
    """Returns the expected results with the scenarios that pass now; with `lower` also with those that fail now."""
    new = dict(expected)
    for result in results:
        if result.scenario == WHOLE:
            continue
        key = (result.client, result.scenario)
        row = expected.get(key)
        if result.passed:
            new[key] = Expected(True)
        elif row is None or (row.passes and lower):
            new[key] = Expected(False, guess_feature(result))
    return new


def table(clients, versions, results, expected):
    """Returns docs/clients.md."""
    lines = [
        "# Clients",
        "",
        "The scenarios of `tools/clients/run.py`: programs that use a client as its users do. Every scenario passes on",
        "PostgreSQL 15. DBeaver, Metabase, Grafana and PostgREST are their catalog queries, sent by psql. This page is",
        "written by `tools/clients/run.py --table all`.",
        "",
        "| client | version | passed |",
        "|---|---|---|",
    ]
    by_client = {client: [result for result in results if result.client == client] for client in clients}
    for client, mine in by_client.items():
        passed = sum(result.passed for result in mine)
        lines.append(f"| {client} | {versions.get(client, '')} | {passed}/{len(mine)} |")
    failed = [result for result in results if not result.passed]
    passed = len(results) - len(failed)
    features = collections.defaultdict(list)
    for result in failed:
        row = expected.get((result.client, result.scenario))
        features[row.feature if row and row.feature else guess_feature(result)].append(result)
    lines += ["", f"{passed} of {len(results)} scenarios pass.", "", "## Missing features", ""]
    lines += ["| feature | failed scenarios | clients |", "|---|---|---|"]
    by_size = sorted(features.items(), key=lambda item: -len(item[1]))
    for feature, lacking in by_size:
        names = ", ".join(dict.fromkeys(result.client for result in lacking))
        lines.append(f"| {feature} | {len(lacking)} | {names} |")
    lines += ["", "## Failed scenarios", ""]
    lines += ["| client | scenario | first line of the error | missing feature |", "|---|---|---|---|"]
    for feature, result in ((feature, result) for feature, lacking in by_size for result in lacking):
        error = result.error.replace("|", "\\|").replace("<", "&lt;")
        error = error if len(error) <= 160 else error[:157] + "..."
        lines.append(f"| {result.client} | {result.scenario} | {error} | {feature} |")
    return "\n".join(lines) + "\n"
