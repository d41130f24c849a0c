"""The scenarios of psql: its meta-commands, each with the answer that PostgreSQL gave for the same schema."""

import os
import tempfile
from urllib.parse import urlparse

import golden

# Commands on the schema of schema.sql.
DESCRIBE = r"""
\d
\d shop.items
\d shop.pairs
\d shop.cheap
\d shop.numbers
\d shop.items_by_price
\d shop.items_name
\d shop.*
\d nosuch
\d+ shop.items
\d+ shop.cheap
\d+ shop.items_by_price
\dS pg_class
\da string_agg
\dA
\dA+ btree
\dAc btree int4
\dAf btree uuid
\dAo btree int4
\dAp btree int4
\db
\db+
\dc *.latin1_to_utf8
\dC int8
\dconfig work_mem
\dconfig+ search_path
\dd shop.*
\dD
\ddp
\dE
\des
\det
\deu
\dew
\df shop.*
\df+ shop.add_one
\df initcap
\dfa sum
\dfp shop.*
\dF english
\dFd english*
\dFp
\dFt
\dg USER
\dg+ USER
\di shop.*
\di+ shop.*
\dit shop.*
\dl
\dL
\dm
\dn
\dn+
\dn shop
\do ||
\dOS C
\dp shop.*
\dP
\drds
\dRp
\dRs
\ds shop.*
\ds+ shop.*
\dt shop.*
\dt+ shop.*
\dtvs shop.*
\dT numeric
\dT+ bool
\du USER
\dv shop.*
\dv+ shop.*
\dx
\dX
\dy
\l DATABASE
\l+ DATABASE
\sf shop.add_one
\sf+ shop.add_one
\sv shop.cheap
\sv+ shop.cheap
\z shop.*
\conninfo
\encoding
"""


def script(text, folder):
    """A scenario that runs a script; FILE is a file of two rows of CSV, FILE2 one to write."""
    rows = os.path.join(folder, "rows.csv")
    with open(rows, "w") as out:
        out.write("1,one\n2,\n")
    url = urlparse(golden.URL)
    text = text.replace("DATABASE", url.path.lstrip("/")).replace("USER", url.username)
    made = text.replace("FILE2", os.path.join(folder, "out.txt")).replace("FILE", rows)
    return [line.replace(folder, "FOLDER") for line in golden.normal(golden.psql(made + "\n"))]


def tab_completion():
    """Completion by the queries that psql sends when a user presses the tabulator."""
    import pty
    import select
    import time

    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="dumb", PAGER="")
        os.execvp("psql", ["psql", "-X", "-q", "-d", golden.URL])
    seen = b""

    def type_in(text, wait):
        nonlocal seen
        os.write(terminal, text.encode())
        end = time.monotonic() + wait
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    seen += os.read(terminal, 4096)
                except OSError:
                    return

    type_in("", 1.5)
    type_in("SELECT 'completed', * FROM shop.pai\t LIMIT 0;\n", 1.5)
    type_in("\\q\n", 0.5)
    os.close(terminal)
    os.waitpid(pid, 0)
    assert b"| a | b | c" in seen, seen[-200:]
    return []


def main():
    with tempfile.TemporaryDirectory(prefix="psql-") as folder:
        golden.psql(f"\\i {golden.HERE}/schema.sql\n")
        scenarios = {line: lambda line=line: script(line, folder) for line in DESCRIBE.strip().splitlines()}
        scripts = golden.queries(golden.HERE / "psql.sql")
        scenarios |= {name: lambda text=text: script(text, folder) for name, text in scripts.items()}
        scenarios["completion by the tabulator"] = tab_completion
        golden.run(golden.psql_version(), scenarios, golden.Answers(golden.HERE / "psql.txt"))


main()
