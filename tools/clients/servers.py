"""The servers that clients run against: PostgreSQL, Gnomon or that of a URL. Each client gets a database of its own."""

import contextlib
import re
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import urlparse

ROOT = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 60


class ServerError(Exception):
    """A server that does not start."""


def database_name(client):
    return "client_" + re.sub(r"\W", "_", client)


class Postgres:
    """A PostgreSQL server of tools/postgres.sh."""

    name = "PostgreSQL"

    def __init__(self, port):
        self.port = port

    def __enter__(self):
        command = [ROOT / "tools/postgres.sh", "--port", str(self.port), "--set", "max_prepared_transactions=10"]
        command += ["--", "sh", "-c", 'echo "$GNOMON_PG_URL"; exec cat']
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip().replace("postgres://", "postgresql://")
        if not self.url:
            raise ServerError("PostgreSQL does not start")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    @contextlib.contextmanager
    def database(self, client):
        """Gives the URL of an empty database."""
        name = database_name(client)
        sql = f'CREATE DATABASE "{name}"'
        command = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.url, "-c", sql]
        subprocess.run(command, check=True)
        yield urlparse(self.url)._replace(path="/" + name).geturl()


class Gnomon:
    """The program `gnomon`: a new database and a server for each client."""

    name = "Gnomon"

    def __init__(self, program):
        self.program = program

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    @contextlib.contextmanager
    def database(self, client):
        """Gives the URL of an empty database, whose server ends afterwards."""
        with tempfile.TemporaryDirectory(prefix="gnomon-clients.") as folder:
            log = Path(folder) / "log"
            with log.open("w") as out:
                name = database_name(client)
                command = [self.program, "serve", Path(folder) / "db", "--port", "0", "--database", name]
                server = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
            try:
                port = self._port(server, log)
                yield f"postgresql://postgres@127.0.0.1:{port}/{name}"
            finally:
                server.terminate()
                try:
                    server.wait(10)
                except subprocess.TimeoutExpired:
                    server.kill()
                    server.wait()

    def _port(self, server, log):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and server.poll() is None:
            found = re.search(r"127\.0\.0\.1:(\d+)", log.read_text())
            if found:
                return found.group(1)
            time.sleep(0.05)
        raise ServerError(f"{self.program} does not start: {log.read_text().strip()}")


class Url:
    """A server that runs already; its database is used as it is."""

    name = "Gnomon"

    def __init__(self, url):
        self.url = url

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    @contextlib.contextmanager
    def database(self, client):
        yield self.url
