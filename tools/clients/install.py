"""The installation of clients from their registries, in pinned versions, under target/clients."""

import hashlib
import os
import shutil
import subprocess
import sys
import threading

from servers import ROOT

HERE = ROOT / "tools/clients"
CACHE = ROOT / "target/clients"


class InstallError(Exception):
    """A client that cannot be installed, with the reason."""


def installed_once(name, *files):
    """Runs an installation when the files that it depends on have changed since it last succeeded."""

    def decorate(install):
        lock = threading.Lock()
        failed = []

        def run():
            with lock:
                if failed:
                    raise failed[0]
                try:
                    check_and_install()
                except InstallError as error:
                    failed.append(error)
                    raise

        def check_and_install():
            stamp = CACHE / f"{name}.sum"
            paths = [path for pattern in files for path in sorted(HERE.glob(pattern))]
            content = b"".join(path.read_bytes() for path in paths)
            sum_now = hashlib.sha256(content).hexdigest()
            if stamp.exists() and stamp.read_text() == sum_now:
                return
            CACHE.mkdir(parents=True, exist_ok=True)
            print(f"installing the clients of {name}", file=sys.stderr)
            install()
            stamp.write_text(sum_now)

        return run

    return decorate


def need(command, package):
    """Requires a program of the system; its Debian package is named if it is absent."""
    if not shutil.which(command):
        raise InstallError(f"{command} is missing: apt-get install --no-install-recommends {package}")


def call(command, folder=HERE, **variables):
    run = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if run.returncode != 0:
        raise InstallError(f"{command[0]} failed: {run.stdout.strip()[-3000:]}")
    return run.stdout


@installed_once("python", "python/requirements.txt")
def python():
    call([sys.executable, "-m", "venv", "--clear", CACHE / "venv"])
    pip = [CACHE / "venv/bin/pip", "install", "-q", "--disable-pip-version-check"]
    call([*pip, "-r", HERE / "python/requirements.txt"])


@installed_once("node", "node/package.json", "node/package-lock.json")
def node():
    need("npm", "npm")
    folder = CACHE / "node"
    folder.mkdir(exist_ok=True)
    for name in ["package.json", "package-lock.json"]:
        shutil.copy(HERE / "node" / name, folder)
    call(["npm", "ci", "--no-audit", "--no-fund", "--silent"], folder)


@installed_once("go", "go/*")
def go():
    need("go", "golang-go")
    call(["go", "build", "-mod=readonly", "-o", CACHE / "go-clients", "."], HERE / "go")


@installed_once("java", "java/pom.xml", "java/src/*")
def java():
    need("mvn", "maven")
    need("javac", "default-jdk-headless")
    folder = CACHE / "java"
    shutil.rmtree(folder / "classes", ignore_errors=True)
    (folder / "classes").mkdir(parents=True)
    call([
        "mvn", "-q", "-B", "-f", HERE / "java/pom.xml", f"-Dmaven.repo.local={folder / 'repository'}",
        "dependency:build-classpath", f"-Dmdep.outputFile={folder / 'classpath'}",
    ])  # fmt: skip
    classpath = (folder / "classpath").read_text()
    sources = sorted((HERE / "java/src").glob("*.java"))
    call(["javac", "-nowarn", "-d", folder / "classes", "-cp", classpath, *sources])


@installed_once("rust", "rust/Cargo.toml", "rust/Cargo.lock", "rust/src/*")
def rust():
    need("cargo", "cargo")
    call(["cargo", "build", "--quiet", "--locked"], HERE / "rust", CARGO_TARGET_DIR=str(CACHE / "rust"))


def ruby():
    need("ruby", "ruby")
    for library, package in [("active_record", "ruby-activerecord"), ("pg", "ruby-pg")]:
        if subprocess.run(["ruby", "-e", f"require '{library}'"], stderr=subprocess.DEVNULL).returncode != 0:
            raise InstallError(f"{library} is missing: apt-get install --no-install-recommends {package}")


def psql():
    need("psql", "postgresql-client")


def pgbench():
    need("pgbench", "postgresql-contrib")


def pgbouncer():
    psql()
    if not os.path.exists("/usr/sbin/pgbouncer"):
        raise InstallError("pgbouncer is missing: apt-get install --no-install-recommends pgbouncer")


def python_command(client):
    return [CACHE / "venv/bin/python", HERE / f"python/{client}_client.py"]


def node_command(client):
    return ["node", HERE / f"node/{client}_client.js"]


def go_command(client):
    return [CACHE / "go-clients", client]


def java_command(client):
    classpath = f"{CACHE / 'java/classes'}:{(CACHE / 'java/classpath').read_text()}"
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", classpath, "Clients", client]


def rust_command(client):
    return [CACHE / "rust/debug/clients", client]


def ruby_command(client):
    return ["ruby", HERE / f"ruby/{client}_client.rb"]


def script_command(client):
    return [sys.executable, HERE / f"programs/{client}_client.py"]


def catalog_command(client):
    return [sys.executable, HERE / "programs/catalogs_client.py", client]


# Installation, the command that runs a client's scenarios, and the clients.
GROUPS = {
    "python": (python, python_command, ["psycopg", "psycopg2", "asyncpg", "sqlalchemy", "django", "pandas"]),
    "node": (node, node_command, ["pg", "postgres", "knex", "sequelize", "typeorm", "drizzle"]),
    "go": (go, go_command, ["pgx", "pq", "gorm", "goose"]),
    "ruby": (ruby, ruby_command, ["activerecord"]),
    "psql": (psql, script_command, ["psql"]),
    "catalogs": (psql, catalog_command, ["dbeaver", "metabase", "grafana", "postgrest"]),
    "java": (java, java_command, ["pgjdbc", "hikari", "flyway", "liquibase", "hibernate", "jooq"]),
    "rust": (rust, rust_command, ["tokio-postgres", "sqlx"]),
    "pgbench": (pgbench, script_command, ["pgbench"]),
    "pgbouncer": (pgbouncer, script_command, ["pgbouncer"]),
}
FAST = ["python", "node", "go", "ruby", "psql", "catalogs"]


def select(names):
    """Returns the clients of names of clients, groups, `fast` and `all`, in order."""
    chosen = set()
    for name in names:
        if name == "all":
            chosen |= {client for _, _, clients in GROUPS.values() for client in clients}
        elif name == "fast":
            chosen |= {client for group in FAST for client in GROUPS[group][2]}
        elif any(name in clients for _, _, clients in GROUPS.values()):
            chosen.add(name)
        elif name in GROUPS:
            chosen |= set(GROUPS[name][2])
        else:
            raise InstallError(f"{name} is no client")
    return [client for _, _, clients in GROUPS.values() for client in clients if client in chosen]


def group_of(client):
    return next(group for group, (_, _, clients) in GROUPS.items() if client in clients)
