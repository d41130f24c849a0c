"""The scenario of asyncpg."""

import asyncio
import os

import asyncpg


async def main():
    db = await asyncpg.connect(os.environ["CLIENT_URL"], timeout=20, command_timeout=20)
    await db.execute("DROP TABLE IF EXISTS asyncpg_t")
    await db.execute("CREATE TABLE asyncpg_t (id int PRIMARY KEY, name text NOT NULL, at timestamptz)")
    async with db.transaction():
        await db.execute("INSERT INTO asyncpg_t VALUES ($1, $2, now())", 1, "one")
        try:
            async with db.transaction():
                await db.execute("INSERT INTO asyncpg_t VALUES ($1, $2)", 1, "again")
        except asyncpg.UniqueViolationError as error:
            assert (error.sqlstate, error.schema_name, error.table_name, error.constraint_name) == (
                "23505",
                "public",
                "asyncpg_t",
                "asyncpg_t_pkey",
            )
        await db.execute("INSERT INTO asyncpg_t VALUES (2, 'two')")
    assert await db.fetchval("SELECT name FROM asyncpg_t WHERE id = $1", 2) == "two"
    assert [row["id"] for row in await db.fetch("SELECT * FROM asyncpg_t ORDER BY id")] == [1, 2]
    # What Parse and Bind refuse comes without a Sync.
    for sql, error in [
        ("SELECT nosuch FROM asyncpg_t", asyncpg.UndefinedColumnError),
        ("SELEC", asyncpg.PostgresSyntaxError),
        ("SELECT 1 / 0", asyncpg.DivisionByZeroError),
    ]:
        try:
            await db.fetch(sql)
            raise AssertionError(sql)
        except error:
            pass
    statement = await db.prepare("SELECT id, name FROM asyncpg_t WHERE id > $1 ORDER BY id")
    assert [tuple(row) for row in await statement.fetch(1)] == [(2, "two")]
    # A result that changed is prepared anew.
    assert len(await db.fetchrow("SELECT * FROM asyncpg_t WHERE id = 1")) == 3
    await db.execute("ALTER TABLE asyncpg_t ADD COLUMN more int")
    assert len(await db.fetchrow("SELECT * FROM asyncpg_t WHERE id = 1")) == 4
    async with db.transaction():
        cursor = await db.cursor("SELECT id FROM asyncpg_t ORDER BY id")
        assert (await cursor.fetchrow())["id"] == 1
        assert (await cursor.fetchrow())["id"] == 2
    await db.copy_records_to_table("asyncpg_t", records=[(i, f"row {i}") for i in range(10, 20)], columns=["id", "name"])
    await db.executemany("UPDATE asyncpg_t SET more = $2 WHERE id = $1", [(10, 1), (11, 2)])
    assert await db.fetchval("SELECT sum(more) FROM asyncpg_t") == 3
    assert await db.execute("DELETE FROM asyncpg_t WHERE id >= 10") == "DELETE 10"
    await db.execute("DROP TABLE asyncpg_t")
    await db.close()


asyncio.run(main())
