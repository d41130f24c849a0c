"""The scenarios of psycopg 2."""

import datetime
import decimal
import io
import select
import uuid

import psycopg2
import psycopg2.extras
import psycopg2.pool
from psycopg2 import errors, extensions, sql
from scenarios import URL, raises, run, same, scenario


def connect(autocommit=True, **options):
    db = psycopg2.connect(URL, **options)
    db.autocommit = autocommit
    return db


def execute(db, query, arguments=None):
    """Runs a statement; returns its rows, or the number of rows."""
    with db.cursor() as cursor:
        cursor.execute(query, arguments)
        return cursor.fetchall() if cursor.description else cursor.rowcount


def table(db, name, columns):
    execute(db, f"DROP TABLE IF EXISTS {name}")
    execute(db, f"CREATE TABLE {name} ({columns})")


@scenario
def connect_and_session():
    db = connect(application_name="clients", connect_timeout=5)
    assert 150000 <= db.server_version < 160000, db.server_version
    same(db.get_parameter_status("server_encoding"), "UTF8")
    same(db.encoding, "UTF8")
    same(db.get_backend_pid(), execute(db, "SELECT pg_backend_pid()")[0][0])
    db.set_client_encoding("LATIN1")
    same(execute(db, "SELECT 'ä', %s", ("ö",)), [("ä", "ö")])
    db.set_client_encoding("UTF8")
    db.reset()
    db.close()
    with raises(psycopg2.OperationalError):
        psycopg2.connect(URL, dbname="nosuch")


@scenario
def create_read_update_delete():
    db = connect()
    table(db, "crud2", "id serial PRIMARY KEY, name text, at timestamptz DEFAULT now()")
    same(execute(db, "INSERT INTO crud2 (name) VALUES (%s) RETURNING id", ("one",)), [(1,)])
    same(execute(db, "UPDATE crud2 SET name = %(name)s", {"name": "o'n\\e"}), 1)
    same(execute(db, "SELECT id, name FROM crud2 WHERE name LIKE %s", ("o'%",)), [(1, "o'n\\e")])
    same(execute(db, "DELETE FROM crud2"), 1)
    db.close()


@scenario
def batches():
    db = connect()
    table(db, "batch2", "id int, name text")
    with db.cursor() as cursor:
        rows = [(i, f"n{i}") for i in range(100)]
        cursor.executemany("INSERT INTO batch2 VALUES (%s, %s)", rows[:20])
        psycopg2.extras.execute_batch(cursor, "INSERT INTO batch2 VALUES (%s, %s)", rows[20:60], page_size=10)
        found = psycopg2.extras.execute_values(
            cursor, "INSERT INTO batch2 VALUES %s RETURNING id", rows[60:], fetch=True
        )
        same(len(found), 40)
    same(execute(db, "SELECT count(*), sum(id) FROM batch2"), [(100, 4950)])
    db.close()


@scenario
def types():
    db = connect()
    psycopg2.extras.register_uuid()
    for name, value in {
        "bool": True,
        "int8": 2**62,
        "float8": 1.5,
        "numeric": decimal.Decimal("1.50"),
        "text": "ä\U0001f600",
        "date": datetime.date(2024, 2, 29),
        "timestamp": datetime.datetime(2024, 2, 29, 12, 30, 1, 5),
        "timestamptz": datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc),
        "interval": datetime.timedelta(days=3, seconds=5),
        "uuid": uuid.UUID(int=5),
        "int[]": [1, None, 3],
        "text[]": ["a", 'b",'],
    }.items():
        same(execute(db, f"SELECT %s::{name}", (value,)), [(value,)], name)
    same(bytes(execute(db, "SELECT %s::bytea", (psycopg2.Binary(b"\x00\xff"),))[0][0]), b"\x00\xff")
    same(execute(db, "SELECT 'infinity'::float8, 'NaN'::numeric::text"), [(float("inf"), "NaN")])
    db.close()


@scenario
def json_values():
    db = connect()
    table(db, "docs2", "doc jsonb")
    execute(db, "INSERT INTO docs2 VALUES (%s)", (psycopg2.extras.Json({"a": [1, None]}),))
    same(execute(db, "SELECT doc, doc ->> 'a' FROM docs2"), [({"a": [1, None]}, "[1, null]")])
    db.close()


@scenario
def ranges():
    db = connect()
    value = psycopg2.extras.NumericRange(1, 5)
    same(execute(db, "SELECT %s::int4range", (value,)), [(value,)])
    db.close()


@scenario
def hstore_extension_is_looked_up():
    db = connect()
    same(psycopg2.extras.HstoreAdapter.get_oids(db), ((), ()))
    db.close()


@scenario
def composite_type():
    db = connect()
    execute(db, "CREATE TYPE card2 AS (value int, suit text)")
    psycopg2.extras.register_composite("card2", db)
    same(tuple(execute(db, "SELECT (8, 'hearts')::card2")[0][0]), (8, "hearts"))
    execute(db, "DROP TYPE card2")
    db.close()


@scenario
def transactions_and_savepoints():
    db = connect(autocommit=False)
    with db:
        table(db, "nested2", "id int PRIMARY KEY")
        execute(db, "INSERT INTO nested2 VALUES (1)")
    with raises(errors.UniqueViolation):
        with db:
            execute(db, "INSERT INTO nested2 VALUES (2)")
            execute(db, "INSERT INTO nested2 VALUES (1)")
    with db:
        execute(db, "SAVEPOINT a")
        execute(db, "INSERT INTO nested2 VALUES (3)")
        execute(db, "SAVEPOINT b")
        with raises(errors.UniqueViolation):
            execute(db, "INSERT INTO nested2 VALUES (3)")
        same(db.info.transaction_status, extensions.TRANSACTION_STATUS_INERROR)
        execute(db, "ROLLBACK TO SAVEPOINT b")
        execute(db, "RELEASE SAVEPOINT a")
    same(execute(db, "SELECT id FROM nested2 ORDER BY id"), [(1,), (3,)])
    db.close()


@scenario
def isolation_levels():
    db, other = connect(autocommit=False), connect()
    table(other, "isolated2", "n int")
    execute(other, "INSERT INTO isolated2 VALUES (0)")
    db.set_session(isolation_level="REPEATABLE READ", readonly=False)
    same(execute(db, "SELECT n FROM isolated2"), [(0,)])
    execute(other, "UPDATE isolated2 SET n = 1")
    same(execute(db, "SELECT n FROM isolated2"), [(0,)])
    with raises(errors.SerializationFailure):
        execute(db, "UPDATE isolated2 SET n = 2")
    db.rollback()
    db.set_session(isolation_level="SERIALIZABLE", readonly=True, deferrable=True)
    with raises(errors.ReadOnlySqlTransaction):
        execute(db, "UPDATE isolated2 SET n = 2")
    db.close()
    other.close()


@scenario
def two_phase_commit():
    db = connect(autocommit=False)
    table(db, "two_phase2", "id int")
    db.commit()
    xid = db.xid(2, "global2", "branch")
    db.tpc_begin(xid)
    execute(db, "INSERT INTO two_phase2 VALUES (1)")
    db.tpc_prepare()
    db.reset()
    same([found.gtrid for found in db.tpc_recover()], ["global2"])
    db.reset()
    db.tpc_commit(xid)
    same(execute(db, "SELECT count(*) FROM two_phase2"), [(1,)])
    db.close()


@scenario
def error_fields():
    db = connect()
    table(db, "fields2", "id int PRIMARY KEY, name text NOT NULL")
    with raises(errors.NotNullViolation) as found:
        execute(db, "INSERT INTO fields2 VALUES (1, NULL)")
    diag = found.error.diag
    same(
        (diag.table_name, diag.column_name, diag.message_detail), ("fields2", "name", "Failing row contains (1, null).")
    )
    with raises(errors.SyntaxError) as found:
        execute(db, "SELECT FROM WHERE")
    same(found.error.pgerror.splitlines()[:2], ['ERROR:  syntax error at or near "WHERE"', "LINE 1: SELECT FROM WHERE"])
    execute(db, "DROP TABLE IF EXISTS nosuch")
    same(db.notices[-1], 'NOTICE:  table "nosuch" does not exist, skipping\n')
    db.close()


@scenario
def cancel_and_timeout():
    import threading

    db = connect(options="-c statement_timeout=200")
    with raises(errors.QueryCanceled):
        execute(db, "SELECT pg_sleep(10)")
    execute(db, "SET statement_timeout = 0")
    timer = threading.Timer(0.2, db.cancel)
    timer.start()
    with raises(errors.QueryCanceled):
        execute(db, "SELECT pg_sleep(10)")
    timer.join()
    db.close()


@scenario
def copy():
    db = connect()
    table(db, "copied2", "id int, name text")
    with db.cursor() as cursor:
        cursor.copy_from(io.StringIO("1\tone\n2\t\\N\n"), "copied2")
        cursor.copy_expert("COPY copied2 FROM STDIN WITH CSV HEADER", io.StringIO('id,name\n3,"a,b"\n'))
        out = io.StringIO()
        cursor.copy_to(out, "copied2", columns=["id"], sep="|")
        same(out.getvalue(), "1\n2\n3\n")
        out = io.StringIO()
        cursor.copy_expert("COPY (SELECT * FROM copied2 ORDER BY id) TO STDOUT WITH CSV", out)
        same(out.getvalue(), '1,one\n2,\n3,"a,b"\n')
    db.close()


@scenario
def named_cursor():
    db = connect(autocommit=False)
    with db.cursor("streamed") as cursor:
        cursor.itersize = 3
        cursor.execute("SELECT * FROM generate_series(1, 10)")
        same([row[0] for row in cursor], list(range(1, 11)))
    with db.cursor("scrolled", scrollable=True, withhold=True) as cursor:
        cursor.execute("SELECT * FROM generate_series(1, 10)")
        db.commit()
        cursor.scroll(5)
        same(cursor.fetchone(), (6,))
        cursor.scroll(-2)
        same(cursor.fetchone(), (5,))
    db.close()


@scenario
def row_factories():
    db = connect()
    with db.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
        cursor.execute("SELECT 1 AS a, 'x' AS b")
        same(dict(cursor.fetchone()), {"a": 1, "b": "x"})
    with db.cursor() as cursor:
        cursor.execute("SELECT 1::numeric(8,2) AS a")
        column = cursor.description[0]
        same((column.name, column.type_code, column.precision, column.scale), ("a", 1700, 8, 2))
    db.close()


@scenario
def listen_and_notify():
    db, other = connect(), connect()
    execute(db, "LISTEN news2")
    execute(other, "NOTIFY news2, 'hello'")
    assert select.select([db], [], [], 3)[0], "nothing came"
    db.poll()
    same([note.payload for note in db.notifies], ["hello"])
    db.close()
    other.close()


@scenario
def large_object():
    db = connect(autocommit=False)
    large = db.lobject(0, "wb")
    large.write(b"hello")
    oid = large.oid
    large.close()
    same(db.lobject(oid, "rb").read(), b"hello")
    db.lobject(oid).unlink()
    db.commit()
    db.close()


@scenario
def stored_procedure():
    db = connect()
    with db.cursor() as cursor:
        cursor.callproc("upper", ["x"])
        same(cursor.fetchone(), ("X",))
        execute(db, "CREATE OR REPLACE PROCEDURE nothing2(INOUT n int) LANGUAGE sql AS 'SELECT n + 1'")
        cursor.execute("CALL nothing2(%s)", (1,))
        same(cursor.fetchone(), (2,))
    db.close()


@scenario
def composed_sql():
    db = connect()
    table(db, '"odd ""table2"""', "n int")
    query = sql.SQL("INSERT INTO {} ({}) VALUES ({})")
    with db.cursor() as cursor:
        cursor.execute(query.format(sql.Identifier('odd "table2"'), sql.Identifier("n"), sql.Placeholder()), (3,))
        same(cursor.mogrify("SELECT %s, %s", ("a'b", None)), b"SELECT 'a''b', NULL")
        cursor.execute("SELECT 1; SELECT 2")
        same(cursor.fetchone(), (2,))
    db.close()


@scenario
def pool():
    pool = psycopg2.pool.ThreadedConnectionPool(1, 3, URL)
    first, second = pool.getconn(), pool.getconn()
    same(execute(first, "SELECT 1"), execute(second, "SELECT 1"))
    pool.putconn(first)
    pool.putconn(second)
    pool.closeall()


run(psycopg2.__version__.split()[0])
