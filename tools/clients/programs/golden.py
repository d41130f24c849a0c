"""Scenarios whose answers psql prints, compared with those that PostgreSQL gave."""

import os
import re
import subprocess
from pathlib import Path
from urllib.parse import urlparse

HERE = Path(__file__).resolve().parent
URL = os.environ.get("CLIENT_URL", "")
ONLY = os.environ.get("CLIENT_ONLY", "")
RECORD = "CLIENT_RECORD" in os.environ
SECONDS = 60


def psql(script, *options):
    """Runs a script in psql; returns what it prints, errors included."""
    command = ["psql", "-X", "-q", "-d", URL, *options]
    environment = {**os.environ, "PGCONNECT_TIMEOUT": "5", "PGTZ": "UTC", "LC_ALL": "C.UTF-8", "PAGER": ""}
    run = subprocess.run(
        command,
        input=script,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        timeout=SECONDS,
        errors="replace",
    )
    return run.stdout


def normal(text):
    """The lines without what differs between servers: names, sizes, large OIDs, places in a source, widths."""
    url = urlparse(URL)
    names = {url.path.lstrip("/"): "DATABASE", str(url.port): "PORT", url.username: "USER"}
    for name, replacement in names.items():
        text = re.sub(rf"(?<![\w/]){re.escape(name)}\b", replacement, text)
    text = re.sub(r"\b\d+ (?:bytes|kB|MB)", "SIZE", text)
    text = re.sub(r"PID [1-9]\d+", "PID OID", text)
    text = re.sub(r"pg_(temp|toast)_\d+", r"pg_\1_OID", text)
    text = re.sub(r"(?<!ERROR: )(?<!ERROR:  )\b[1-9]\d{4,}\b", "OID", text)
    lines = [re.sub(r"-{2,}", "--", re.sub(r"\s+", " ", line)).strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("LOCATION:")]


def queries(path):
    """The queries of a file, by name; each follows a line `-- name: NAME`."""
    found = {}
    for line in path.read_text().splitlines():
        if line.startswith("-- name: "):
            name = line.removeprefix("-- name: ")
            found[name] = ""
        elif found:
            found[name] += line + "\n"
    return found


class Answers:
    """A file of recorded answers: `## NAME`, and the lines."""

    def __init__(self, path):
        self.path = path
        self.known = {}
        if path.exists() and not RECORD:
            for line in path.read_text().splitlines():
                if line.startswith("## "):
                    self.known[line[3:]] = lines = []
                else:
                    lines.append(line)

    def compare(self, name, lines):
        """Raises an AssertionError with the first line that is another; records the lines instead if that is asked."""
        if RECORD:
            self.known[name] = lines
            return
        assert name in self.known, "no recorded answer"
        expected = self.known[name]
        refused = [line for line in lines if "ERROR:" in line and line not in expected]
        assert not refused, refused[0]
        for at in range(max(len(lines), len(expected))):
            got = lines[at] if at < len(lines) else "no line"
            wanted = expected[at] if at < len(expected) else "no line"
            assert got == wanted, f"line {at + 1}: {got}; expected: {wanted}"

    def write(self):
        if RECORD:
            text = [f"## {name}\n" + "".join(line + "\n" for line in lines) for name, lines in self.known.items()]
            self.path.write_text("".join(text))


def run(version, scenarios, answers=None):
    """Runs scenarios, functions by name, and goes on after one that fails; compares the lines that they return."""
    print(f"version {version}", flush=True)
    for name, scenario in scenarios.items():
        if ONLY not in name:
            continue
        lines = []
        try:
            lines = scenario()
            if answers:
                answers.compare(name, lines)
            print(f"ok {name}", flush=True)
        except (AssertionError, subprocess.SubprocessError, OSError) as error:
            print(f"FAIL {name}: {str(error) or type(error).__name__}")
            print("\n".join("  " + line for line in lines or []), flush=True)
    if answers:
        answers.write()


def psql_version():
    return subprocess.run(["psql", "--version"], capture_output=True, text=True).stdout.split()[2]
