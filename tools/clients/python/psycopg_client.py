"""The scenario of psycopg 3."""

import os

import psycopg
from psycopg import errors

url = os.environ["CLIENT_URL"]
with psycopg.connect(url, autocommit=True) as db:
    db.execute("DROP TABLE IF EXISTS psycopg_t")
    db.execute("CREATE TABLE psycopg_t (id int PRIMARY KEY, name text NOT NULL, tags text[], n numeric)")
    with db.transaction():
        db.execute("INSERT INTO psycopg_t VALUES (%s, %s, %s, %s)", (1, "one", ["a", "b c"], None))
        try:
            with db.transaction():
                db.execute("INSERT INTO psycopg_t VALUES (1, 'again')")
        except errors.UniqueViolation as error:
            fields = error.diag
            assert (fields.sqlstate, fields.table_name, fields.constraint_name) == (
                "23505",
                "psycopg_t",
                "psycopg_t_pkey",
            ), fields
        db.execute("INSERT INTO psycopg_t VALUES (2, 'two')", prepare=True)
    assert db.execute("SELECT id, name, tags FROM psycopg_t ORDER BY id").fetchall() == [
        (1, "one", ["a", "b c"]),
        (2, "two", None),
    ]
    for i in range(10):
        assert db.execute("SELECT name FROM psycopg_t WHERE id = %s", (2,), binary=i % 2 == 0).fetchone() == ("two",)
    try:
        db.execute("INSERT INTO psycopg_t (id, name) VALUES (3, NULL)")
        raise AssertionError("NULL was taken")
    except errors.NotNullViolation as error:
        assert (error.diag.table_name, error.diag.column_name) == ("psycopg_t", "name"), error.diag

    # Errors within a pipeline, at the first statement that fails.
    try:
        with db.pipeline():
            db.execute("SELECT 1")
            db.execute("SELECT 1 / 0")
            db.execute("SELECT 2")
        raise AssertionError("1 / 0 was computed")
    except errors.DivisionByZero:
        pass
    with db.pipeline():
        cursors = [db.execute("SELECT %s::int", (i,)) for i in range(20)]
        assert [cursor.fetchone() for cursor in cursors] == [(i,) for i in range(20)]

    with db.cursor().copy("COPY psycopg_t (id, name) FROM STDIN") as copy:
        for i in range(100, 200):
            copy.write_row((i, f"row {i}"))
    with db.cursor().copy("COPY psycopg_t (id, name) FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int4", "text"])
        copy.write_row((200, "binary"))
    try:
        with db.cursor().copy("COPY psycopg_t (id, name) FROM STDIN") as copy:
            copy.write("x\ty\n")
        raise AssertionError("x is no integer")
    except errors.InvalidTextRepresentation:
        pass
    with db.cursor().copy("COPY psycopg_t (id) TO STDOUT") as copy:
        assert len(list(copy.rows())) == 103
    with db.transaction(), db.cursor("a cursor") as cursor:
        cursor.execute("SELECT id FROM psycopg_t ORDER BY id")
        assert cursor.fetchmany(2) == [(1,), (2,)]
    assert db.execute("UPDATE psycopg_t SET n = 1.5 WHERE id >= 100").rowcount == 101
    assert db.execute("DELETE FROM psycopg_t").rowcount == 103
    db.execute("DROP TABLE psycopg_t")
