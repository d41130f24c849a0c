"""Scenarios of a Python client: each a function, of which one line tells the result."""

import asyncio
import os
import re
import signal
import sys
import traceback

URL = os.environ.get("CLIENT_URL", "")
ONLY = os.environ.get("CLIENT_ONLY", "")
SECONDS = 20
_scenarios = []


def scenario(function):
    """Adds a function to the scenarios; its name, with spaces, is that of the scenario."""
    _scenarios.append(function)
    return function


class raises:
    """Expects an exception, whose SQLSTATE may be given; `error` is what was raised."""

    def __init__(self, kind, sqlstate=None):
        self.kind, self.sqlstate = kind, sqlstate

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        assert error is not None, f"no {self.kind.__name__}"
        if not isinstance(error, self.kind):
            return False
        self.error = error
        if self.sqlstate:
            same(sqlstate_of(error), self.sqlstate, error)
        return True


def sqlstate_of(error):
    """The SQLSTATE of a driver's exception, or of the driver's exception that it wraps."""
    original = getattr(error, "orig", None) or error
    for one in [original, error.__cause__]:
        state = getattr(one, "sqlstate", None) or getattr(one, "pgcode", None)
        if state:
            return state
    return None


def same(got, expected, context=""):
    assert got == expected, f"{got!r}, expected {expected!r} {context}".strip()


def first_line(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    state = sqlstate_of(error)
    text = f"{type(error).__name__}{f' {state}' if state else ''}: {lines[0] if lines else ''}"
    return re.sub(r"\s+", " ", text)


def _timeout(*_):
    raise TimeoutError(f"no end after {SECONDS} s")


def run(version, before=lambda: None):
    """Runs the scenarios, with `before` before each, and goes on after one that fails."""
    print(f"version {version}", flush=True)
    signal.signal(signal.SIGALRM, _timeout)
    for function in _scenarios:
        name = function.__name__.replace("_", " ")
        if ONLY not in name:
            continue
        signal.alarm(SECONDS)
        try:
            before()
            answer = function()
            if asyncio.iscoroutine(answer):
                asyncio.run(asyncio.wait_for(answer, SECONDS - 2))
            signal.alarm(0)
            print(f"ok {name}", flush=True)
        except Exception as error:
            signal.alarm(0)
            print(f"FAIL {name}: {first_line(error)}")
            details = "".join(traceback.format_exception(error))
            print("\n".join("  " + line for line in details.splitlines()), flush=True)
    sys.stdout.flush()
    os._exit(0)
