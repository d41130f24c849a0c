"""The scenarios of psycopg 3."""

import datetime
import decimal
import ipaddress
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import psycopg
from psycopg import errors, sql
from psycopg.rows import dict_row, namedtuple_row
from psycopg.types.json import Json, Jsonb
from psycopg.types.range import Range
from psycopg_pool import ConnectionPool
from scenarios import URL, first_line, raises, run, same, scenario

connect = lambda **options: psycopg.connect(URL, autocommit=True, **options)  # noqa: E731


def table(db, name, columns, *rows):
    """Makes a table anew, with rows."""
    db.execute(f"DROP TABLE IF EXISTS {name}")
    db.execute(f"CREATE TABLE {name} ({columns})")
    for row in rows:
        db.execute(f"INSERT INTO {name} VALUES ({', '.join(['%s'] * len(row))})", row)


@scenario
def connect_and_parameters():
    with psycopg.connect(URL, application_name="clients", options="-c statement_timeout=5s") as db:
        info = db.info
        assert 150000 <= info.server_version < 160000, info.server_version
        same(info.encoding, "utf-8")
        same(info.parameter_status("standard_conforming_strings"), "on")
        same(info.parameter_status("application_name"), "clients")
        same(db.execute("SHOW statement_timeout").fetchone(), ("5s",))
        same(db.execute("SELECT current_database(), current_user").fetchone(), (info.dbname, info.user))
        same(db.execute("SELECT pg_backend_pid()").fetchone(), (info.backend_pid,))
    with raises(psycopg.OperationalError):
        psycopg.connect(URL, dbname="nosuch")


@scenario
def create_read_update_delete():
    with connect() as db:
        table(db, "crud", "id int PRIMARY KEY, name text NOT NULL, tags text[], n numeric")
        db.execute("INSERT INTO crud VALUES (%s, %s, %s, %s)", (1, "one", ["a", "b c"], None))
        db.execute("INSERT INTO crud VALUES (2, %(name)s)", {"name": "two"}, prepare=True)
        found = db.execute("SELECT id, name, tags FROM crud ORDER BY id").fetchall()
        same(found, [(1, "one", ["a", "b c"]), (2, "two", None)])
        for i in range(10):
            row = db.execute("SELECT name FROM crud WHERE id = %s", (2,), binary=i % 2 == 0).fetchone()
            same(row, ("two",))
        same(db.execute("INSERT INTO crud VALUES (3, 'x') RETURNING id, name").fetchone(), (3, "x"))
        upsert = "INSERT INTO crud VALUES (3, 'y') ON CONFLICT (id) DO UPDATE SET name = excluded.name RETURNING name"
        same(db.execute(upsert).fetchone(), ("y",))
        same(db.execute("UPDATE crud SET n = 1.5 WHERE id >= 2").rowcount, 2)
        same(db.execute("DELETE FROM crud").statusmessage, "DELETE 3")


@scenario
def many_executions():
    with connect() as db:
        table(db, "many", "id int PRIMARY KEY, name text")
        with db.cursor() as cursor:
            cursor.executemany("INSERT INTO many VALUES (%s, %s)", [(i, f"n{i}") for i in range(100)])
            same(cursor.rowcount, 100)
            cursor.executemany("DELETE FROM many WHERE id = %s RETURNING name", [(1,), (2,)], returning=True)
            same(cursor.fetchone(), ("n1",))
            assert cursor.nextset()
            same(cursor.fetchone(), ("n2",))


@scenario
def pipeline():
    with connect() as db:
        with db.pipeline():
            cursors = [db.execute("SELECT %s::int", (i,)) for i in range(20)]
            same([cursor.fetchone() for cursor in cursors], [(i,) for i in range(20)])
        with raises(errors.DivisionByZero):
            with db.pipeline():
                db.execute("SELECT 1")
                db.execute("SELECT 1 / 0")
                db.execute("SELECT 2")
        same(db.execute("SELECT 3").fetchone(), (3,))


@scenario
def prepared_statements_after_a_change_of_schema():
    with connect(prepare_threshold=1) as db:
        table(db, "prep", "id int", (1,))
        for _ in range(3):
            same(db.execute("SELECT * FROM prep WHERE id = %s", (1,)).fetchone(), (1,))
        names = db.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE %s", ("%prep WHERE%",))
        same(names.fetchone(), (1,))
        with connect() as other:
            other.execute("ALTER TABLE prep ADD COLUMN more int")
        with raises(errors.FeatureNotSupported) as found:
            db.execute("SELECT * FROM prep WHERE id = %s", (1,))
        same(found.error.diag.message_primary, "cached plan must not change result type")
        db.execute("DEALLOCATE ALL")
        same(db.execute("SELECT 1").fetchone(), (1,))


TYPES = {
    "bool": True,
    "int2": 7,
    "int8": 2**62,
    "float8": 1.5,
    "numeric": decimal.Decimal("12345678901234567890.123"),
    "text": "äöü \U0001f600",
    "bytea": b"\x00\xff",
    "date": datetime.date(2024, 2, 29),
    "time": datetime.time(12, 30, 1, 5),
    "timestamp": datetime.datetime(2024, 2, 29, 12, 30, 1, 5),
    "timestamptz": datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc),
    "interval": datetime.timedelta(days=3, seconds=5),
    "uuid": uuid.UUID(int=5),
    "inet": ipaddress.ip_address("10.0.0.1"),
    "cidr": ipaddress.ip_network("10.0.0.0/8"),
    "int4[]": [1, None, 3],
    "text[]": [["a", 'b"'], ["c,", "d"]],
    "date[]": [datetime.date(2024, 2, 29)],
}


def round_trip(types):
    """Sends and reads a value of each type, as text and as binary; tells of all types that fail."""
    failed = []
    with connect() as db:
        for name, value in types.items():
            for mark in ["%t", "%b"]:
                try:
                    row = db.execute(f"SELECT {mark}::{name}", (value,), binary=mark == "%b").fetchone()
                    same(row[0], value, name)
                except Exception as error:
                    failed.append(f"{name} {mark}: {first_line(error)}")
    assert not failed, "; ".join(failed)


@scenario
def types_in_both_formats():
    round_trip(TYPES)


@scenario
def ranges_and_multiranges():
    round_trip(
        {
            "int4range": Range(1, 5),
            "numrange": Range(decimal.Decimal("1.5"), None, "()"),
            "daterange": Range(datetime.date(2024, 1, 1), datetime.date(2024, 2, 1)),
        }
    )
    with connect() as db:
        found = db.execute("SELECT '{[1,3),[5,7)}'::int4multirange").fetchone()[0]
        same(list(found), [Range(1, 3), Range(5, 7)])


@scenario
def json_and_jsonb():
    value = {"a": [1, 2.5, None, "x"], "b": {"c": True}}
    with connect() as db:
        table(db, "docs", "id int, doc jsonb, raw json")
        db.execute("INSERT INTO docs VALUES (1, %s, %s)", (Jsonb(value), Json(value)))
        same(db.execute("SELECT doc, raw FROM docs").fetchone(), (value, value))
        same(db.execute("SELECT doc -> 'a' ->> 3 FROM docs").fetchone(), ("x",))
        same(db.execute("SELECT id FROM docs WHERE doc @> %s", (Jsonb({"b": {"c": True}}),)).fetchone(), (1,))


@scenario
def enum_type():
    import enum

    from psycopg.types.enum import EnumInfo, register_enum

    mood = enum.Enum("mood", ["sad", "ok"])
    with connect() as db:
        db.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        register_enum(EnumInfo.fetch(db, "mood"), db, mood)
        same(db.execute("SELECT %s::mood", (mood.ok,)).fetchone(), (mood.ok,))
        with raises(errors.InvalidTextRepresentation):
            db.execute("SELECT 'angry'::mood")
        db.execute("DROP TYPE mood")


@scenario
def composite_type():
    from psycopg.types.composite import CompositeInfo, register_composite

    with connect() as db:
        db.execute("CREATE TYPE card AS (value int, suit text)")
        register_composite(CompositeInfo.fetch(db, "card"), db)
        same(tuple(db.execute("SELECT (8, 'hearts')::card").fetchone()[0]), (8, "hearts"))
        db.execute("DROP TYPE card")


@scenario
def transactions_and_nested_savepoints():
    with connect() as db:
        table(db, "nested", "id int PRIMARY KEY")
        with db.transaction():
            db.execute("INSERT INTO nested VALUES (1)")
            with raises(errors.UniqueViolation):
                with db.transaction("a point"):
                    db.execute("INSERT INTO nested VALUES (2)")
                    db.execute("INSERT INTO nested VALUES (1)")
            with db.transaction():
                db.execute("INSERT INTO nested VALUES (3)")
                with db.transaction() as inner:
                    db.execute("INSERT INTO nested VALUES (4)")
                    raise psycopg.Rollback(inner)
        same(db.execute("SELECT id FROM nested ORDER BY id").fetchall(), [(1,), (3,)])
        with raises(errors.InFailedSqlTransaction):
            with db.transaction():
                with raises(errors.UndefinedTable):
                    db.execute("SELECT * FROM nosuch")
                db.execute("SELECT 1")


@scenario
def isolation_levels():
    with connect() as db, connect() as other:
        table(db, "isolated", "id int PRIMARY KEY, n int", (1, 0))
        db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with raises(errors.SerializationFailure):
            with db.transaction():
                same(db.execute("SELECT n FROM isolated").fetchone(), (0,))
                other.execute("UPDATE isolated SET n = 1")
                same(db.execute("SELECT n FROM isolated").fetchone(), (0,))
                db.execute("UPDATE isolated SET n = n + 1")
        db.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        db.read_only, db.deferrable = True, True
        with db.transaction():
            same(db.execute("SHOW transaction_isolation").fetchone(), ("serializable",))
            with raises(errors.ReadOnlySqlTransaction):
                db.execute("DELETE FROM isolated")


@scenario
def two_phase_commit():
    with psycopg.connect(URL) as db:
        table(db, "two_phase", "id int")
        db.commit()
        xid = db.xid(1, "global", "branch")
        db.tpc_begin(xid)
        db.execute("INSERT INTO two_phase VALUES (1)")
        db.tpc_prepare()
        with psycopg.connect(URL) as other:
            same([found.gtrid for found in other.tpc_recover()], ["global"])
        db.tpc_commit()
        same(db.execute("SELECT count(*) FROM two_phase").fetchone(), (1,))


@scenario
def error_fields():
    with connect() as db:
        table(
            db, "fields", "id int PRIMARY KEY, name text NOT NULL, n int CONSTRAINT positive CHECK (n > 0)", (1, "a", 1)
        )
        for insert, kind, column, constraint in [
            ("(1, 'b', 1)", errors.UniqueViolation, None, "fields_pkey"),
            ("(2, NULL, 1)", errors.NotNullViolation, "name", None),
            ("(2, 'b', 0)", errors.CheckViolation, None, "positive"),
        ]:
            with raises(kind) as found:
                db.execute(f"INSERT INTO fields VALUES {insert}")
            diag = found.error.diag
            same((diag.schema_name, diag.table_name), ("public", "fields"))
            same((diag.column_name, diag.constraint_name), (column, constraint))
        with raises(errors.UndefinedColumn) as found:
            db.execute("SELECT nmae FROM fields")
        diag = found.error.diag
        same((diag.severity, diag.statement_position), ("ERROR", "8"))
        same(diag.message_hint, 'Perhaps you meant to reference the column "fields.name".')
        with raises(errors.SyntaxError):
            db.execute("SELEC 1")


@scenario
def foreign_key_violation():
    with connect() as db:
        db.execute("DROP TABLE IF EXISTS child, parent")
        db.execute("CREATE TABLE parent (id int PRIMARY KEY)")
        db.execute("CREATE TABLE child (id int, parent int REFERENCES parent ON DELETE CASCADE)")
        with raises(errors.ForeignKeyViolation) as found:
            db.execute("INSERT INTO child VALUES (1, 5)")
        same(found.error.diag.constraint_name, "child_parent_fkey")
        db.execute("INSERT INTO parent VALUES (5)")
        db.execute("INSERT INTO child VALUES (1, 5)")
        db.execute("DELETE FROM parent")
        same(db.execute("SELECT count(*) FROM child").fetchone(), (0,))
        db.execute("DROP TABLE child, parent")


@scenario
def notices():
    with connect() as db:
        found = []
        db.add_notice_handler(lambda diag: found.append((diag.severity, diag.sqlstate, diag.message_primary)))
        db.execute("DROP TABLE IF EXISTS nosuch")
        same(found, [("NOTICE", "00000", 'table "nosuch" does not exist, skipping')])


@scenario
def do_block_with_plpgsql():
    with connect() as db:
        found = []
        db.add_notice_handler(lambda diag: found.append(diag.message_primary))
        db.execute("DO $$ BEGIN RAISE NOTICE 'hello %', 1 + 1; END $$")
        same(found, ["hello 2"])


@scenario
def function_in_plpgsql():
    with connect() as db:
        db.execute(
            "CREATE FUNCTION add_one(n int) RETURNS int LANGUAGE plpgsql AS"
            " $$ BEGIN IF n < 0 THEN RAISE EXCEPTION 'negative'; END IF; RETURN n + 1; END $$"
        )
        same(db.execute("SELECT add_one(%s)", (1,)).fetchone(), (2,))
        with raises(errors.RaiseException):
            db.execute("SELECT add_one(-1)")
        db.execute("DROP FUNCTION add_one(int)")


@scenario
def function_in_sql():
    with connect() as db:
        db.execute("CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT n * 2'")
        same(db.execute("SELECT twice(4)").fetchone(), (8,))
        db.execute("DROP FUNCTION twice(int)")


@scenario
def trigger():
    with connect() as db:
        table(db, "watched", "id int, changed int DEFAULT 0")
        db.execute(
            "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN NEW.changed := OLD.changed + 1; RETURN NEW; END $$"
        )
        db.execute("CREATE TRIGGER noting BEFORE UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION note()")
        db.execute("INSERT INTO watched VALUES (1)")
        db.execute("UPDATE watched SET id = 2")
        same(db.execute("SELECT * FROM watched").fetchone(), (2, 1))
        db.execute("DROP TABLE watched")


@scenario
def listen_and_notify():
    with connect() as db, connect() as other:
        db.execute("LISTEN news")
        other.execute("NOTIFY news, 'first'")
        other.execute("SELECT pg_notify('news', 'second')")
        found = [note.payload for note in db.notifies(timeout=3, stop_after=2)]
        same(found, ["first", "second"])


@scenario
def temporary_table():
    with connect() as db:
        db.execute("CREATE TEMPORARY TABLE scratch (id int) ON COMMIT PRESERVE ROWS")
        db.execute("INSERT INTO scratch VALUES (1)")
        same(db.execute("SELECT * FROM scratch").fetchall(), [(1,)])
        with db.transaction():
            db.execute("CREATE TEMP TABLE shorter ON COMMIT DROP AS SELECT 1 AS one")
        with raises(errors.UndefinedTable):
            db.execute("SELECT * FROM shorter")
    with connect() as db, raises(errors.UndefinedTable):
        db.execute("SELECT * FROM scratch")


@scenario
def roles_and_privileges():
    with connect() as db:
        table(db, "secret", "id int")
        db.execute("CREATE ROLE psycopg_reader")
        try:
            db.execute("SET ROLE psycopg_reader")
            with raises(errors.InsufficientPrivilege):
                db.execute("SELECT * FROM secret")
            db.execute("RESET ROLE")
            db.execute("GRANT SELECT ON secret TO psycopg_reader")
            db.execute("SET ROLE psycopg_reader")
            db.execute("SELECT * FROM secret")
        finally:
            db.execute("RESET ROLE")
            db.execute("DROP TABLE secret")
            db.execute("DROP ROLE psycopg_reader")


@scenario
def advisory_locks():
    with connect() as db, connect() as other:
        db.execute("SELECT pg_advisory_lock(7)")
        same(other.execute("SELECT pg_try_advisory_lock(7)").fetchone(), (False,))
        same(db.execute("SELECT pg_advisory_unlock(7)").fetchone(), (True,))
        with other.transaction():
            other.execute("SELECT pg_advisory_xact_lock(7)")


@scenario
def row_locks():
    with connect() as db, connect() as other:
        table(db, "locked", "id int PRIMARY KEY", (1,), (2,))
        with db.transaction():
            db.execute("SELECT * FROM locked WHERE id = 1 FOR UPDATE")
            with raises(errors.LockNotAvailable):
                other.execute("SELECT * FROM locked WHERE id = 1 FOR UPDATE NOWAIT")
            same(other.execute("SELECT * FROM locked FOR UPDATE SKIP LOCKED").fetchall(), [(2,)])
            other.execute("SET lock_timeout = '100ms'")
            with raises(errors.LockNotAvailable):
                other.execute("UPDATE locked SET id = 5 WHERE id = 1")


@scenario
def cancel_and_timeouts():
    with connect() as db:
        timer = threading.Timer(0.3, db.cancel_safe)
        timer.start()
        with raises(errors.QueryCanceled):
            db.execute("SELECT pg_sleep(10)")
        timer.join()
        db.execute("SET statement_timeout = '100ms'")
        with raises(errors.QueryCanceled) as found:
            db.execute("SELECT pg_sleep(10)")
        same(found.error.diag.message_primary, "canceling statement due to statement timeout")
        db.execute("RESET statement_timeout")
        same(db.execute("SELECT 1").fetchone(), (1,))
    db = psycopg.connect(URL)
    db.execute("SET idle_in_transaction_session_timeout = '100ms'")
    time.sleep(0.5)
    with raises(psycopg.Error, "25P03"):
        db.execute("SELECT 1")


@scenario
def terminate_a_session():
    with connect() as db:
        victim = psycopg.connect(URL, autocommit=True)
        same(db.execute("SELECT pg_terminate_backend(%s)", (victim.info.backend_pid,)).fetchone(), (True,))
        with raises(errors.AdminShutdown):
            victim.execute("SELECT 1")
        victim.close()


@scenario
def copy_in_and_out():
    with connect() as db:
        table(db, "copied", "id int, name text")
        with db.cursor().copy("COPY copied (id, name) FROM STDIN") as copy:
            for i in range(100, 200):
                copy.write_row((i, f"row\t{i}" if i % 2 else None))
        with db.cursor().copy("COPY copied (id, name) FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int4", "text"])
            copy.write_row((200, "binary"))
        with db.cursor().copy("COPY copied FROM STDIN WITH (FORMAT csv, HEADER, NULL 'none', DELIMITER ';')") as copy:
            copy.write('id;name\n201;"a;b"\n202;none\n')
        with raises(errors.InvalidTextRepresentation) as found:
            with db.cursor().copy("COPY copied (id, name) FROM STDIN") as copy:
                copy.write("x\ty\n")
        same(found.error.diag.context, 'COPY copied, line 1, column id: "x"')
        with db.cursor().copy("COPY copied (id) TO STDOUT") as copy:
            same(len(list(copy.rows())), 103)
        with db.cursor().copy(
            "COPY (SELECT * FROM copied WHERE id > 199 ORDER BY id) TO STDOUT (FORMAT binary)"
        ) as copy:
            copy.set_types(["int4", "text"])
            same(list(copy.rows()), [(200, "binary"), (201, "a;b"), (202, None)])
        with db.cursor().copy("COPY (SELECT * FROM copied WHERE id > 200 ORDER BY 1) TO STDOUT CSV HEADER") as copy:
            same(b"".join(copy).decode(), "id,name\n201,a;b\n202,\n")


@scenario
def server_side_cursors():
    with connect() as db:
        with db.transaction(), db.cursor("a cursor", scrollable=True) as cursor:
            cursor.execute("SELECT * FROM generate_series(1, 10)")
            same(cursor.fetchmany(2), [(1,), (2,)])
            cursor.scroll(-1)
            same(cursor.fetchone(), (2,))
            cursor.scroll(9, mode="absolute")
            same(cursor.fetchall(), [(10,)])
        with db.cursor("held", withhold=True) as cursor:
            cursor.execute("SELECT * FROM generate_series(1, 5)")
            cursor.itersize = 2
            same([row[0] for row in cursor], [1, 2, 3, 4, 5])


@scenario
def streamed_rows():
    with connect() as db, db.cursor() as cursor:
        total = sum(row[0] for row in cursor.stream("SELECT * FROM generate_series(1, 1000)"))
        same(total, 500500)
        same(sum(row[0] for row in cursor.stream("SELECT * FROM generate_series(1, 100)", size=10)), 5050)


@scenario
def row_factories_and_descriptions():
    with connect() as db:
        table(db, "described", "id int, price numeric(8, 2), name varchar(30)", (1, 2, "x"))
        cursor = db.cursor(row_factory=dict_row).execute("SELECT * FROM described")
        same(cursor.fetchone(), {"id": 1, "price": decimal.Decimal("2.00"), "name": "x"})
        columns = [(c.name, c.type_code, c.precision, c.scale, c.display_size) for c in cursor.description]
        same(columns, [("id", 23, None, None, None), ("price", 1700, 8, 2, None), ("name", 1043, None, None, 30)])
        same(db.cursor(row_factory=namedtuple_row).execute("SELECT 1 AS one").fetchone().one, 1)


@scenario
def composed_sql():
    with connect() as db:
        table(db, '"odd ""name"""', '"a column" int', (3,))
        query = sql.SQL("SELECT {} FROM {} WHERE {} = {}").format(
            sql.Identifier("a column"), sql.Identifier('odd "name"'), sql.Identifier("a column"), sql.Literal(3)
        )
        same(db.execute(query).fetchall(), [(3,)])
        same(db.execute("SELECT 1; SELECT 2").fetchone(), (1,))


@scenario
def pool_of_connections():
    with ConnectionPool(URL, min_size=2, max_size=4, check=ConnectionPool.check_connection) as pool:
        pool.wait(10)
        with pool.connection() as db:
            table(db, "pooled", "n int", (0,))

        def work(_):
            with pool.connection() as db:
                db.execute("UPDATE pooled SET n = n + 1")

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(work, range(40)))
        with pool.connection() as db:
            same(db.execute("SELECT n FROM pooled").fetchone(), (40,))


@scenario
def asynchronous_connection():
    async def work():
        async with await psycopg.AsyncConnection.connect(URL, autocommit=True) as db:
            async with db.pipeline():
                cursor = await db.execute("SELECT %s::int + 1", (1,))
            same(await cursor.fetchone(), (2,))

    return work()


@scenario
def types_fetched_by_name():
    with connect() as db:
        found = psycopg.types.TypeInfo.fetch(db, "timestamptz")
        same((found.oid, found.array_oid, found.regtype), (1184, 1185, "timestamp with time zone"))
        same(psycopg.types.TypeInfo.fetch(db, "nosuch"), None)


run(psycopg.__version__)
