"""Results of scenarios: the protocol of client scripts, the expected results, the table of docs/clients.md."""

import dataclasses
import re
from pathlib import Path

EXPECTED = Path(__file__).resolve().parent / "expected.tsv"
WHOLE = "(all scenarios)"

# The feature that a failed scenario lacks, by its error; the first that matches.
FEATURES = [
    ("foreign keys", r"foreign key|\breferences\b|pg_get_constraintdef|contype = 'f'|confrelid"),
    ("json", r"json"),
    ("temporary tables", r"temporary|\btemp\b"),
    ("LISTEN", r"\b(un)?listen\b|notify"),
    ("enums", r"\benum|create type"),
    ("triggers", r"trigger"),
    ("roles", r"\brole|\bgrant\b|\bowner to\b|create user|privilege"),
    ("functions", r"create function|language plpgsql|\bdo\b.*block|function .* does not exist|plpgsql"),
    ("arrays", r"array|\bunnest\b"),
    ("catalogs", r"pg_catalog|information_schema|\bpg_[a-z_]+\b|regclass|system column|catalog"),
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
    text = f"{result.scenario} {result.error} {result.details}"
    return next((name for name, pattern in FEATURES if re.search(pattern, text, re.IGNORECASE)), "other")


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
        "PostgreSQL 15. This page is written by `tools/clients/run.py --table all`.",
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
    lines += ["", f"{passed} of {len(results)} scenarios pass.", "", "## Failed scenarios", ""]
    lines += ["| client | scenario | first line of the error | missing feature |", "|---|---|---|---|"]
    for result in failed:
        row = expected.get((result.client, result.scenario))
        feature = row.feature if row and row.feature else guess_feature(result)
        error = result.error.replace("|", "\\|").replace("<", "&lt;")
        error = error if len(error) <= 160 else error[:157] + "..."
        lines.append(f"| {result.client} | {result.scenario} | {error} | {feature} |")
    return "\n".join(lines) + "\n"
