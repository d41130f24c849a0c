"""The scenarios of PgBouncer before the server, in each of its modes of pooling."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from urllib.parse import urlparse

import golden

PROGRAM = "/usr/sbin/pgbouncer"
SERVER = urlparse(golden.URL)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def pgbouncer(mode, **settings):
    """Runs PgBouncer; gives the URL of the same database behind it."""
    folder = tempfile.mkdtemp(prefix="pgbouncer-")
    port = free_port()
    name = SERVER.path.lstrip("/")
    values = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": mode,
        "default_pool_size": 2,
        "max_client_conn": 100,
        "admin_users": "admin",
        "ignore_startup_parameters": "extra_float_digits,options",
        "logfile": f"{folder}/log",
        **settings,
    }
    with open(f"{folder}/pgbouncer.ini", "w") as out:
        where = f"host={SERVER.hostname} port={SERVER.port} user={SERVER.username} dbname={name}"
        out.write(f"[databases]\n{name} = {where}\n[pgbouncer]\n")
        out.writelines(f"{key} = {value}\n" for key, value in values.items())
    command = [PROGRAM, "-q", f"{folder}/pgbouncer.ini"]
    if os.getuid() == 0:  # It does not run as root.
        shutil.chown(folder, "nobody")
        command = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--", *command]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield SERVER._replace(netloc=f"{SERVER.username}@127.0.0.1:{port}").geturl()
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def psql(url, script, *options):
    """Runs a script in psql, which must give no error; returns its lines."""
    command = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, *options]
    run = subprocess.run(command, input=script, capture_output=True, text=True, timeout=golden.SECONDS)
    assert run.returncode == 0, run.stderr.strip().splitlines()[0]
    return run.stdout.split()


def same(found, expected):
    assert found == expected, f"{found}, expected {expected}"


def statements(mode):
    with pgbouncer(mode) as url:
        for number in range(5):
            same(psql(url, f"SELECT {number} + 1;"), [str(number + 1)])


def session():
    with pgbouncer("session") as url:
        same(psql(url, "SET work_mem = '7MB';\nSHOW work_mem;"), ["7MB"])
        # DISCARD ALL ends what a client has set.
        assert psql(url, "SHOW work_mem;") != ["7MB"], "the setting is kept"


def transactions():
    with pgbouncer("transaction") as url:
        script = (
            "DROP TABLE IF EXISTS bounced;\nCREATE TABLE bounced (n int);\nBEGIN;\nINSERT INTO bounced VALUES (1);\n"
        )
        same(
            psql(url, script + "SAVEPOINT a;\nDELETE FROM bounced;\nROLLBACK TO a;\nCOMMIT;\nSELECT n FROM bounced;"),
            ["1"],
        )


def few_connections():
    with pgbouncer("transaction") as url:
        psql(url, "DROP TABLE IF EXISTS counted;\nCREATE TABLE counted AS SELECT 0 AS n;")
        command = ["psql", "-X", "-q", "-d", url, "-c", "UPDATE counted SET n = n + 1"]
        clients = [subprocess.Popen(command) for _ in range(20)]
        same([client.wait(golden.SECONDS) for client in clients], [0] * 20)
        same(psql(url, "SELECT n FROM counted;"), ["20"])
        connections = "SELECT count(*) <= 2 FROM pg_stat_activity WHERE application_name IN ('psql', 'other');"
        same(psql(url, connections), ["t"])


def benchmark(mode, protocol):
    with pgbouncer(mode) as url:
        parts = urlparse(url)
        server = ["-h", "127.0.0.1", "-p", str(parts.port), "-U", parts.username, parts.path.lstrip("/")]
        for words in [["-i", "-q"], ["-n", "-c", "2", "-t", "10", "-M", protocol]]:
            run = subprocess.run(["pgbench", *words, *server], capture_output=True, text=True, timeout=golden.SECONDS)
            assert run.returncode == 0, run.stderr.strip().splitlines()[-1]


def parameters():
    with pgbouncer("session") as url:
        environment = {**os.environ, "PGAPPNAME": "other", "PGTZ": "Asia/Tokyo", "PGCLIENTENCODING": "UTF8"}
        command = ["psql", "-X", "-A", "-t", "-d", url, "-c", "SHOW application_name", "-c", "SHOW timezone"]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=golden.SECONDS)
        same(run.stdout.split(), ["other", "Asia/Tokyo"])


def copies():
    with pgbouncer("transaction") as url:
        psql(url, "DROP TABLE IF EXISTS copied;\nCREATE TABLE copied (n int);\nCOPY copied FROM STDIN;\n1\n2\n\\.\n")
        same(psql(url, "COPY copied TO STDOUT;"), ["1", "2"])


def errors():
    with pgbouncer("transaction") as url:
        run = subprocess.run(
            ["psql", "-X", "-d", url, "-v", "VERBOSITY=sqlstate", "-c", "SELECT nosuch", "-c", "SELECT 1"],
            capture_output=True,
            text=True,
            timeout=golden.SECONDS,
        )
        assert "42703" in run.stderr and "(1 row)" in run.stdout, run.stderr


def cancel():
    with pgbouncer("transaction", query_timeout=0) as url:
        sleeper = subprocess.Popen(
            ["psql", "-X", "-d", url, "-c", "SELECT pg_sleep(15)"], stderr=subprocess.PIPE, text=True
        )
        time.sleep(0.5)
        sleeper.send_signal(2)
        _, text = sleeper.communicate(timeout=golden.SECONDS)
        assert "canceling statement due to user request" in text, text


def admin():
    with pgbouncer("session") as url:
        psql(url, "SELECT 1;")
        console = urlparse(url)._replace(netloc=f"admin@127.0.0.1:{urlparse(url).port}", path="/pgbouncer").geturl()
        lines = subprocess.run(
            ["psql", "-X", "-A", "-t", "-d", console, "-c", "SHOW SERVERS"],
            capture_output=True,
            text=True,
            timeout=golden.SECONDS,
        ).stdout.splitlines()
        same(len(lines), 1)
        same(psql(console, "PAUSE;\nRESUME;\nRELOAD;"), [])


def restart():
    """Connections that the server ended are replaced."""
    with pgbouncer("transaction", server_check_delay=0, server_check_query="select 1") as url:
        psql(url, "SELECT 1;")
        psql(
            golden.URL,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database();",
        )
        time.sleep(0.5)
        same(psql(url, "SELECT 2;"), ["2"])


def main():
    version = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True).stdout.split()[1]
    scenarios = {
        f"statements, pool mode {mode}": lambda mode=mode: statements(mode) for mode in ["session", "transaction"]
    }
    scenarios["statements, pool mode statement"] = lambda: statements("statement")
    scenarios["session settings"] = session
    scenarios["transactions and savepoints"] = transactions
    scenarios["many clients, few connections"] = few_connections
    scenarios["startup parameters"] = parameters
    scenarios["COPY"] = copies
    scenarios["errors"] = errors
    scenarios["cancel"] = cancel
    scenarios["admin console"] = admin
    scenarios["terminated connections"] = restart
    for mode, protocol in [("session", "prepared"), ("transaction", "simple"), ("transaction", "extended")]:
        name = f"pgbench, pool mode {mode}, protocol {protocol}"
        scenarios[name] = lambda mode=mode, protocol=protocol: benchmark(mode, protocol)
    golden.run(version, scenarios)


main()
