"""The scenarios of pandas, over SQLAlchemy and psycopg."""

import datetime
import io

import pandas as pd
import psycopg2
from scenarios import URL, raises, run, same, scenario
from sqlalchemy import create_engine, text, types

engine = create_engine(URL.replace("postgresql://", "postgresql+psycopg://"))


def frame():
    return pd.DataFrame(
        {
            "id": [1, 2, 3],
            "name": ["one", None, "three"],
            "price": [1.5, 2.5, None],
            "at": pd.to_datetime(["2024-02-29", "2024-03-01", None]),
            "good": [True, False, True],
        }
    )


def load(sql, **options):
    with engine.connect() as db:
        return pd.read_sql(text(sql), db, **options)


@scenario
def write_and_read_a_frame():
    frame().to_sql("pd_frame", engine, index=False, if_exists="replace")
    found = load("SELECT * FROM pd_frame ORDER BY id")
    same(list(found["id"]), [1, 2, 3])
    same(str(found.dtypes["at"])[:10], "datetime64")
    same([bool(value) for value in found["good"]], [True, False, True])
    assert pd.isna(found["price"][2]), found


@scenario
def append_and_replace():
    frame().to_sql("pd_append", engine, index=False, if_exists="replace")
    frame().to_sql("pd_append", engine, index=False, if_exists="append")
    same(load("SELECT count(*) AS n FROM pd_append")["n"][0], 6)
    with raises(ValueError):
        frame().to_sql("pd_append", engine, if_exists="fail")
    frame().to_sql("pd_append", engine, index=True, index_label="row", if_exists="replace")
    same(load("SELECT max(row) AS n FROM pd_append")["n"][0], 2)


@scenario
def many_rows_in_chunks():
    big = pd.DataFrame({"n": range(5000), "s": [f"row {i}" for i in range(5000)]})
    big.to_sql("pd_big", engine, index=False, if_exists="replace", chunksize=1000, method="multi")
    with engine.connect().execution_options(stream_results=True) as db:
        parts = [len(part) for part in pd.read_sql("SELECT * FROM pd_big", db, chunksize=2000)]
    same(parts, [2000, 2000, 1000])


@scenario
def types_of_columns():
    kinds = {"id": types.BigInteger, "name": types.String(10), "price": types.Numeric(8, 2), "at": types.Date}
    frame().to_sql("pd_types", engine, index=False, if_exists="replace", dtype=kinds)
    found = load("SELECT * FROM pd_types ORDER BY id")
    same(found["at"][0], datetime.date(2024, 2, 29))
    same(str(found["price"][1]), "2.5")


@scenario
def parameters_and_parsed_dates():
    frame().to_sql("pd_parameters", engine, index=False, if_exists="replace")
    found = load("SELECT * FROM pd_parameters WHERE id > :n", params={"n": 1}, index_col="id", parse_dates=["at"])
    same(list(found.index), [2, 3])


@scenario
def read_a_table_by_reflection():
    frame().to_sql("pd_reflected", engine, index=False, if_exists="replace")
    same(list(pd.read_sql_table("pd_reflected", engine, columns=["id", "name"]).columns), ["id", "name"])


@scenario
def json_column():
    docs = pd.DataFrame({"id": [1], "doc": [{"a": [1]}]})
    docs.to_sql("pd_json", engine, index=False, if_exists="replace", dtype={"doc": types.JSON})
    same(load("SELECT doc FROM pd_json")["doc"][0], {"a": [1]})


@scenario
def aggregates_and_dates():
    days = pd.DataFrame({"at": pd.date_range("2024-01-01", periods=60), "n": range(60)})
    days.to_sql("pd_days", engine, index=False, if_exists="replace")
    sql = "SELECT date_trunc('month', at) AS month, sum(n) AS n, avg(n)::float8 FROM pd_days GROUP BY 1 ORDER BY 1"
    found = load(sql)
    same([int(n) for n in found["n"]], [465, 1305])


@scenario
def copy_of_a_frame():
    with psycopg2.connect(URL) as db, db.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS pd_copied")
        cursor.execute("CREATE TABLE pd_copied (id int, name text, price float8, at timestamp, good bool)")
        cursor.copy_expert("COPY pd_copied FROM STDIN WITH CSV", io.StringIO(frame().to_csv(index=False, header=False)))
        cursor.execute("SELECT count(*), count(name) FROM pd_copied")
        same(cursor.fetchone(), (3, 2))


run(pd.__version__)
