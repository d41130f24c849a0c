"""The scenarios of asyncpg."""

import asyncio
import datetime
import decimal
import io
import ipaddress
import json
import uuid

import asyncpg
from scenarios import URL, first_line, raises, run, same, scenario


async def connect(**options):
    return await asyncpg.connect(URL, timeout=10, command_timeout=10, **options)


async def table(db, name, columns):
    await db.execute(f"DROP TABLE IF EXISTS {name}")
    await db.execute(f"CREATE TABLE {name} ({columns})")


@scenario
async def connect_and_settings():
    db = await connect(server_settings={"application_name": "clients", "search_path": "public", "jit": "off"})
    same(db.get_server_version()[0], 15)
    same(db.get_settings().application_name, "clients")
    same(await db.fetchval("SHOW search_path"), "public")
    same(await db.fetchval("SELECT pg_backend_pid()"), db.get_server_pid())
    await db.reset()
    await db.close()
    with raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(URL, database="nosuch")


@scenario
async def create_read_update_delete():
    db = await connect()
    await table(db, "crud3", "id int PRIMARY KEY, name text NOT NULL, at timestamptz")
    same(await db.execute("INSERT INTO crud3 VALUES ($1, $2, now())", 1, "one"), "INSERT 0 1")
    same(await db.fetchval("INSERT INTO crud3 VALUES (2, 'two') RETURNING name"), "two")
    same([row["id"] for row in await db.fetch("SELECT * FROM crud3 ORDER BY id")], [1, 2])
    same(await db.fetchval("SELECT name FROM crud3 WHERE id = any($1::int[])", [2, 3]), "two")
    same(await db.execute("UPDATE crud3 SET name = $1", "x"), "UPDATE 2")
    same(await db.execute("DELETE FROM crud3 WHERE id >= $1", 1), "DELETE 2")
    await db.close()


@scenario
async def batches():
    db = await connect()
    await table(db, "batch3", "id int PRIMARY KEY, n int")
    await db.executemany("INSERT INTO batch3 VALUES ($1, $2)", [(i, i) for i in range(500)])
    same(await db.fetchval("SELECT sum(n) FROM batch3"), 124750)
    # A batch is one transaction.
    with raises(asyncpg.UniqueViolationError):
        await db.executemany("INSERT INTO batch3 VALUES ($1, 1)", [(1000,), (1,)])
    same(await db.fetchval("SELECT count(*) FROM batch3"), 500)
    rows = await db.fetchmany("UPDATE batch3 SET n = 0 WHERE id = $1 RETURNING id", [(1,), (2,)])
    same([row["id"] for row in rows], [1, 2])
    await db.close()


TYPES = {
    "bool": True,
    "int2": 7,
    "int8": 2**62,
    "float4": 1.5,
    "float8": 1e300,
    "numeric": decimal.Decimal("12345678901234567890.123"),
    "text": "äöü \U0001f600",
    "varchar": "x",
    "bytea": b"\x00\xff",
    "date": datetime.date(2024, 2, 29),
    "time": datetime.time(12, 30, 1, 5),
    "timetz": datetime.time(12, 30, tzinfo=datetime.timezone.utc),
    "timestamp": datetime.datetime(2024, 2, 29, 12, 30, 1, 5),
    "timestamptz": datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc),
    "interval": datetime.timedelta(days=3, seconds=5),
    "uuid": uuid.UUID(int=5),
    "int4[]": [[1, None], [3, 4]],
    "text[]": ["a", 'b"'],
    "oid": 5,
}


async def round_trip(types):
    """Sends and reads a value of each type; tells of all types that fail."""
    db = await connect()
    failed = []
    for name, value in types.items():
        try:
            same(await db.fetchval(f"SELECT $1::{name}", value), value, name)
        except Exception as error:
            failed.append(f"{name}: {first_line(error)}")
    await db.close()
    assert not failed, "; ".join(failed)


@scenario
async def types():
    await round_trip(TYPES)


@scenario
async def network_bit_and_geometric_types():
    await round_trip(
        {
            "inet": ipaddress.ip_interface("10.0.0.1/8"),
            "cidr": ipaddress.ip_network("10.0.0.0/8"),
            "macaddr": "08:00:2b:01:02:03",
            "varbit": asyncpg.BitString("1010"),
            "point": asyncpg.Point(1, 2),
            "box": asyncpg.Box((3, 4), (1, 2)),
            "money": "$1.00",
        }
    )


@scenario
async def ranges():
    await round_trip(
        {
            "int4range": asyncpg.Range(1, 5),
            "tsrange": asyncpg.Range(datetime.datetime(2024, 1, 1), None),
            "int4multirange": [asyncpg.Range(1, 5)],
        }
    )


@scenario
async def json_codec():
    db = await connect()
    await db.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    same(await db.fetchval("SELECT $1::jsonb", {"a": [1, None]}), {"a": [1, None]})
    await db.close()


@scenario
async def enum_and_composite_types():
    db = await connect()
    await db.execute("CREATE TYPE mood3 AS ENUM ('sad', 'ok')")
    same(await db.fetchval("SELECT $1::mood3", "ok"), "ok")
    same(await db.fetchval("SELECT $1::mood3[]", ["ok", "sad"]), ["ok", "sad"])
    await db.execute("CREATE TYPE card3 AS (value int, mood mood3)")
    same(tuple(await db.fetchval("SELECT $1::card3", (1, "sad"))), (1, "sad"))
    await db.execute("DROP TYPE card3, mood3")
    await db.close()


@scenario
async def domain_type():
    db = await connect()
    await db.execute("CREATE DOMAIN positive3 AS int CHECK (value > 0)")
    same(await db.fetchval("SELECT $1::positive3", 1), 1)
    with raises(asyncpg.CheckViolationError):
        await db.fetchval("SELECT $1::positive3", 0)
    await db.execute("DROP DOMAIN positive3")
    await db.close()


@scenario
async def row_values():
    db = await connect()
    same(tuple(await db.fetchval("SELECT ROW(1, 'x'::text, NULL::int)")), (1, "x", None))
    await table(db, "rows3", "id int, name text")
    await db.execute("INSERT INTO rows3 VALUES (1, 'one')")
    same(tuple(await db.fetchval("SELECT rows3 FROM rows3")), (1, "one"))
    same([tuple(r) for r in await db.fetchval("SELECT array_agg(rows3) FROM rows3")], [(1, "one")])
    await db.close()


@scenario
async def prepared_statements():
    db = await connect()
    await table(db, "prep3", "id int, name varchar(20)")
    statement = await db.prepare("SELECT id, name FROM prep3 WHERE id > $1 ORDER BY id")
    same([(a.name, a.type.name) for a in statement.get_attributes()], [("id", "int4"), ("name", "varchar")])
    same([p.name for p in statement.get_parameters()], ["int4"])
    same(await statement.fetch(1), [])
    # A result that changed is prepared anew.
    same(await db.fetch("SELECT * FROM prep3"), [])
    await db.execute("ALTER TABLE prep3 ADD COLUMN more int DEFAULT 5")
    await db.execute("INSERT INTO prep3 VALUES (1, 'x')")
    same([tuple(row) for row in await db.fetch("SELECT * FROM prep3")], [(1, "x", 5)])
    await db.close()


@scenario
async def explain_of_a_statement():
    db = await connect()
    statement = await db.prepare("SELECT $1::int")
    plan = await statement.explain(5, analyze=True)
    assert plan[0]["Plan"]["Node Type"] == "Result", plan
    await db.close()


@scenario
async def transactions_and_nested_savepoints():
    db = await connect()
    await table(db, "nested3", "id int PRIMARY KEY")
    async with db.transaction():
        await db.execute("INSERT INTO nested3 VALUES (1)")
        with raises(asyncpg.UniqueViolationError) as found:
            async with db.transaction():
                await db.execute("INSERT INTO nested3 VALUES (2)")
                async with db.transaction():
                    await db.execute("INSERT INTO nested3 VALUES (1)")
        error = found.error
        same((error.schema_name, error.table_name, error.constraint_name), ("public", "nested3", "nested3_pkey"))
        await db.execute("INSERT INTO nested3 VALUES (3)")
    same([row[0] for row in await db.fetch("SELECT id FROM nested3 ORDER BY id")], [1, 3])
    await db.close()


@scenario
async def isolation_levels():
    db, other = await connect(), await connect()
    await table(db, "isolated3", "n int")
    await db.execute("INSERT INTO isolated3 VALUES (0)")
    with raises(asyncpg.SerializationError):
        async with db.transaction(isolation="repeatable_read"):
            same(await db.fetchval("SELECT n FROM isolated3"), 0)
            await other.execute("UPDATE isolated3 SET n = 1")
            await db.execute("UPDATE isolated3 SET n = 2")
    async with db.transaction(isolation="serializable", readonly=True, deferrable=True):
        with raises(asyncpg.ReadOnlySQLTransactionError):
            await db.execute("UPDATE isolated3 SET n = 2")
    await db.close()
    await other.close()


@scenario
async def errors():
    db = await connect()
    await table(db, "fields3", "id int PRIMARY KEY, name text NOT NULL")
    for sql, kind in [
        ("SELECT nosuch FROM fields3", asyncpg.UndefinedColumnError),
        ("SELECT * FROM nosuch", asyncpg.UndefinedTableError),
        ("SELECT nosuch(1)", asyncpg.UndefinedFunctionError),
        ("SELEC", asyncpg.PostgresSyntaxError),
        ("SELECT 1 / 0", asyncpg.DivisionByZeroError),
        ("INSERT INTO fields3 VALUES (1)", asyncpg.NotNullViolationError),
        ("SELECT 'x'::int", asyncpg.InvalidTextRepresentationError),
        ("SELECT 10::int2 * 30000::int2", asyncpg.NumericValueOutOfRangeError),
    ]:
        with raises(kind):
            await db.fetch(sql)
    with raises(asyncpg.DataError):
        await db.fetch("SELECT $1::int", "x")
    await db.close()


@scenario
async def notices():
    db = await connect()
    found = []
    db.add_log_listener(lambda _, message: found.append(message.message))
    await db.execute("DROP TABLE IF EXISTS nosuch")
    await asyncio.sleep(0.1)
    same(found, ['table "nosuch" does not exist, skipping'])
    await db.close()


@scenario
async def cancel_and_timeouts():
    db = await connect()
    with raises(asyncio.TimeoutError):
        await db.fetch("SELECT pg_sleep(10)", timeout=0.2)
    same(await db.fetchval("SELECT 1"), 1)
    task = asyncio.create_task(db.fetch("SELECT pg_sleep(10)"))
    await asyncio.sleep(0.2)
    task.cancel()
    with raises(asyncio.CancelledError):
        await task
    same(await db.fetchval("SELECT 2"), 2)
    await db.close()


@scenario
async def copy():
    db = await connect()
    await table(db, "copied3", "id int, name text, at date")
    rows = [(i, f"row {i}", datetime.date(2024, 1, 1)) for i in range(100)]
    same(await db.copy_records_to_table("copied3", records=rows, columns=["id", "name", "at"]), "COPY 100")
    out = io.BytesIO()
    await db.copy_from_query("SELECT id, name FROM copied3 WHERE id < $1 ORDER BY id", 2, output=out, format="csv")
    same(out.getvalue(), b"0,row 0\n1,row 1\n")
    out = io.BytesIO()
    await db.copy_from_table("copied3", output=out, columns=["id"], format="binary")
    out.seek(0)
    same(await db.copy_to_table("copied3", source=out, columns=["id"], format="binary"), "COPY 100")
    source = io.BytesIO(b"id;name\n5;none\n")
    same(await db.copy_to_table("copied3", source=source, columns=["id", "name"], format="csv", header=True,
                                delimiter=";", null="none"), "COPY 1")  # fmt: skip
    same(await db.fetchval("SELECT count(*) FROM copied3"), 201)
    await db.close()


@scenario
async def cursors():
    db = await connect()
    async with db.transaction():
        found = [row[0] async for row in db.cursor("SELECT * FROM generate_series(1, $1::int)", 100, prefetch=7)]
        same(found, list(range(1, 101)))
        cursor = await db.cursor("SELECT * FROM generate_series(1, 10)")
        same((await cursor.fetchrow())[0], 1)
        await cursor.forward(3)
        same([row[0] for row in await cursor.fetch(2)], [5, 6])
    await db.close()


@scenario
async def listen_and_notify():
    db, other = await connect(), await connect()
    came = asyncio.get_running_loop().create_future()
    await db.add_listener("news3", lambda *arguments: came.set_result(arguments[3]))
    await other.execute("NOTIFY news3, 'hello'")
    same(await asyncio.wait_for(came, 3), "hello")
    await db.remove_listener("news3", print)
    await db.close()
    await other.close()


@scenario
async def pool():
    async with asyncpg.create_pool(URL, min_size=2, max_size=4) as pool:
        await pool.execute("DROP TABLE IF EXISTS pooled3")
        await pool.execute("CREATE TABLE pooled3 (n int)")
        await pool.execute("INSERT INTO pooled3 VALUES (0)")
        await asyncio.gather(*[pool.execute("UPDATE pooled3 SET n = n + 1") for _ in range(40)])
        same(await pool.fetchval("SELECT n FROM pooled3"), 40)
        async with pool.acquire() as db:
            await db.execute("SET search_path = nosuch")
        # A connection that comes back to the pool is reset.
        for _ in range(8):
            same(await pool.fetchval("SHOW search_path"), '"$user", public')


run(asyncpg.__version__)
