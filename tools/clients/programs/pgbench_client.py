"""The scenarios of pgbench: every option of its two modes."""

import os
import re
import subprocess
import tempfile
from urllib.parse import urlparse

import golden

# Options of initialization, after `pgbench -i`; what each must print.
INITIALIZATION = {
    "-i": "done in",
    "-i -s 2 -F 80": "done in",
    "-i -q": "done in",
    "-i -n": "done in",
    "-i -I dtGvp": "done in",
    "-i -I d": "dropping old tables",
    "-i -I t": "creating tables",
    "-i -I G": "generating data (server-side)",
    "-i -I v": "vacuuming",
    "-i -I p": "creating primary keys",
    "-i -I dtgpf --foreign-keys": "creating foreign keys",
    "-i --unlogged-tables": "done in",
    "-i --partitions=2 --partition-method=hash": "done in",
    "-i --partitions=2 --partition-method=range": "done in",
    "-i --tablespace=pg_default --index-tablespace=pg_default": "done in",
}

# Options of a run; what each must print. FILE is a script, LOG a prefix.
RUNS = {
    "-t 20": "number of transactions actually processed: 20/20",
    "-T 1": "tps = ",
    "-c 4 -j 2 -t 20": "number of transactions actually processed: 80/80",
    "-b simple-update -t 20": "<builtin: simple update>",
    "-b select-only -t 50": "<builtin: select only>",
    "-N -t 20": "<builtin: simple update>",
    "-S -t 50": "<builtin: select only>",
    "-b tpcb-like@2 -b select-only@1 -t 20": "SQL script 2: <builtin: select only>",
    "-M simple -t 20": "query mode: simple",
    "-M extended -t 20": "query mode: extended",
    "-M prepared -t 20": "query mode: prepared",
    "-C -t 10": "average connection time",
    "-C -c 4 -j 2 -M prepared -t 5": "average connection time",
    "-r -t 20": "statement latencies in milliseconds",
    "-R 100 -t 20": "rate limit schedule lag",
    "-R 100 -L 50 -t 20": "number of transactions above the 50.0 ms latency limit",
    "-P 1 -T 2": "progress: 1.0 s",
    "-P 1 -T 2 --progress-timestamp": "progress: 1",
    "-l -t 20 --log-prefix=LOG": "number of transactions actually processed: 20/20",
    "-l --aggregate-interval=1 -T 2 --log-prefix=LOG": "tps = ",
    "-l --sampling-rate=0.5 -t 20 --log-prefix=LOG": "tps = ",
    "-v -t 10": "tps = ",
    "-n -t 10": "tps = ",
    "-s 1 -t 10": "scaling factor: 1",
    "-d -t 2 -n": "executing script",
    "-f FILE -D base=5 -t 20 -n": "number of transactions actually processed: 20/20",
    "-f FILE@1 -b select-only@0 -D base=5 -t 20 -n": "tps = ",
    "-M prepared -f FILE -D base=5 -t 20 -n": "tps = ",
    "-f COMBINED -t 20 -n": "number of transactions actually processed: 20/20",
    "-f BRANCHES -t 20 -n": "number of transactions actually processed: 20/20",
    "-f FUNCTIONS -t 20 -n": "number of transactions actually processed: 20/20",
    "-f PIPELINE -M extended -t 20 -n": "number of transactions actually processed: 20/20",
    "-f PIPELINE -M prepared -t 20 -n": "number of transactions actually processed: 20/20",
    "-f FAILING --max-tries=3 --failures-detailed -t 5 -n": "number of failed transactions: 0",
    "-f CONFLICTS --max-tries=100 --failures-detailed -c 4 -t 20 -n": "number of serialization failures: 0",
    "-f CONFLICTS --max-tries=0 -L 5000 -c 4 -t 10 -n": "number of failed transactions: 0",
    "-f CONFLICTS --max-tries=100 --verbose-errors -c 4 -t 10 -n": "number of transactions retried",
    "--random-seed=7 -t 10": "tps = ",
    "--show-script=tpcb-like": "UPDATE pgbench_accounts",
    "-b list": "tpcb-like",
}

FILES = {
    "FILE": "\\set id random(1, 100000)\n\\set n :base + abs(-3) * greatest(1, 2)\n\\if :n > 5\nSELECT abalance AS a,"
    " bid FROM pgbench_accounts WHERE aid = :id \\gset\n\\endif\nSELECT :a, :bid;\n\\sleep 1 ms\nSELECT 1"
    " AS one, 2 AS two \\gset\n\\shell true\n\\setshell s echo 4\nSELECT :one::int + :two::int + :s::int;\n",
    "COMBINED": "SELECT 1 AS one \\; SELECT 2 AS two \\aset\nSELECT :one + :two;\n",
    "BRANCHES": "\\set r random(1, 3)\n\\if :r = 1\nSELECT 10 AS n \\gset of_\n\\elif :r = 2\n"
    "SELECT 20 AS n \\gset of_\n\\else\nSELECT 25 AS n \\; SELECT 30 AS n \\aset of_\n\\endif\n"
    "\\if :of_n != :r * 10\nSELECT 1/0;\n\\endif\nSELECT :client_id, :scale, :default_seed;\n",
    "FUNCTIONS": "\\set aid 1 + permute(random_zipfian(0, 99999, 1.1), 100000, :default_seed)\n"
    "\\set bid random_gaussian(1, 9, 2.5)\n\\set tid random_exponential(1, 10, 2)\n"
    "\\set d case when hash(:aid) % 2 = 0 then -1 else int(pi()) end\n"
    "UPDATE pgbench_accounts SET abalance = abalance + :d WHERE aid = :aid RETURNING abalance AS b \\gset\n"
    "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :b, now());\n",
    "PIPELINE": "\\startpipeline\nSELECT 1;\nUPDATE pgbench_tellers SET tbalance = 1 WHERE tid = 1;\nSELECT 2;\n"
    "\\endpipeline\n",
    "FAILING": "BEGIN;\nSAVEPOINT a;\nROLLBACK TO a;\nEND;\n",
    "CONFLICTS": "BEGIN ISOLATION LEVEL REPEATABLE READ;\nUPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE"
    " bid = 1 RETURNING bbalance;\nEND;\n",
}


def pgbench(options, wanted, folder):
    """Runs pgbench with options and looks for a text in what it prints."""
    for name, text in FILES.items():
        path = os.path.join(folder, f"{name.lower()}.sql")
        with open(path, "w") as out:
            out.write(text)
        options = re.sub(rf"\b{name}\b", path, options)
    url = urlparse(golden.URL)
    server = ["-h", url.hostname, "-p", str(url.port), "-U", url.username]
    words = options.replace("LOG", os.path.join(folder, "log")).split()
    command = ["pgbench", *words, *server, url.path.lstrip("/")]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=golden.SECONDS)
    errors = re.findall(r"(?:error: |ERROR: +)(.*)", run.stdout)
    assert run.returncode == 0, f"exit code {run.returncode}: {errors[0] if errors else run.stdout[-200:]}"
    assert wanted in run.stdout, f"no {wanted!r} in {run.stdout[-300:]!r}"


def main():
    with tempfile.TemporaryDirectory(prefix="pgbench-") as folder:
        # The runs need tables of the default layout.
        order = {**INITIALIZATION, "-i --fillfactor=90": "done in", **RUNS}
        scenarios = {
            name: lambda name=name, wanted=wanted: pgbench(name, wanted, folder) for name, wanted in order.items()
        }
        golden.run(golden.psql_version(), scenarios)


main()
