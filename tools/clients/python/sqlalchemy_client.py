"""The scenarios of SQLAlchemy over psycopg, and of Alembic."""

import datetime
import decimal
import enum
import pathlib
import tempfile
import uuid

import alembic as alembic_package
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from scenarios import URL, raises, run, same, scenario
from sqlalchemy import ForeignKey, create_engine, func, inspect, select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, ProgrammingError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload

ENGINE_URL = URL.replace("postgresql://", "postgresql+psycopg://")
engine = create_engine(ENGINE_URL)


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "sa_account"
    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(sa.String(30), unique=True)
    balance: Mapped[int] = mapped_column(default=0)
    __table_args__ = (sa.Index("sa_balance", "balance", "id"), sa.CheckConstraint("balance >= 0", name="sa_solvent"))


class Related(DeclarativeBase):
    pass


class Author(Related):
    __tablename__ = "sa_author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    books: Mapped[list["Book"]] = relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Related):
    __tablename__ = "sa_book"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    author_id: Mapped[int] = mapped_column(ForeignKey("sa_author.id", ondelete="CASCADE"))
    author: Mapped[Author] = relationship(back_populates="books")


def accounts():
    """Makes the table of accounts anew, with two rows."""
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([Account(owner="ann", balance=5), Account(owner="bob", balance=7)])
        session.commit()


def table(name, *columns, **options):
    """Makes a table of its own metadata anew."""
    metadata = sa.MetaData()
    made = sa.Table(name, metadata, *columns, **options)
    metadata.drop_all(engine)
    metadata.create_all(engine)
    return made


@scenario
def connect_and_dialect():
    with engine.connect() as db:
        same(engine.dialect.server_version_info[0], 15)
        same(engine.dialect.default_schema_name, "public")
        same(db.scalar(select(sa.literal("x") + "y")), "xy")
        same(db.scalar(text("SELECT :n + 1").bindparams(n=1)), 2)
        same(db.default_isolation_level, "READ COMMITTED")


@scenario
def schema_up_and_down():
    accounts()
    assert inspect(engine).has_table("sa_account")
    Base.metadata.drop_all(engine)
    assert not inspect(engine).has_table("sa_account")


@scenario
def orm_crud():
    accounts()
    with Session(engine) as session:
        ann = session.scalars(select(Account).where(Account.owner == "ann")).one()
        ann.balance += 1
        session.add(Account(owner="eve"))
        session.commit()
        same(session.scalars(select(Account.balance).order_by(Account.id)).all(), [6, 7, 0])
        session.delete(ann)
        session.commit()
        same(session.execute(select(func.count(), func.sum(Account.balance))).one(), (2, 7))
        session.execute(sa.update(Account).where(Account.balance < 5).values(balance=Account.balance + 10))
        session.execute(sa.delete(Account).where(Account.owner == "bob"))
        session.commit()
        same(session.scalars(select(Account.balance)).all(), [10])


@scenario
def relationships():
    Related.metadata.drop_all(engine)
    Related.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Author(name="ann", books=[Book(title="one"), Book(title="two")]))
        session.commit()
        found = session.scalars(select(Author).options(selectinload(Author.books))).one()
        same(sorted(book.title for book in found.books), ["one", "two"])
        session.delete(found)
        session.commit()
        same(session.scalar(select(func.count()).select_from(Book)), 0)
    Related.metadata.drop_all(engine)


@scenario
def batches_and_returning():
    made = table("sa_batch", sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.Text))
    with engine.begin() as db:
        db.execute(made.insert(), [{"name": f"n{i}"} for i in range(1500)])
        same(db.scalar(select(func.count()).select_from(made)), 1500)
        rows = db.execute(
            made.insert().returning(made.c.id, sort_by_parameter_order=True), [{"name": "x"}, {"name": "y"}]
        )
        same(rows.scalars().all(), [1501, 1502])
        many = db.execute(
            made.update().where(made.c.id == sa.bindparam("key")), [{"key": 1, "name": "z"}, {"key": 2, "name": "z"}]
        )
        same(many.rowcount, 2)


@scenario
def upserts():
    accounts()
    insert = postgresql.insert(Account).values(owner="ann", balance=3)
    upsert = insert.on_conflict_do_update(
        index_elements=["owner"], set_={"balance": Account.balance + insert.excluded.balance}
    ).returning(Account.balance)
    with engine.begin() as db:
        same(db.scalar(upsert), 8)
        same(db.execute(insert.on_conflict_do_nothing().returning(Account.id)).all(), [])


@scenario
def queries():
    accounts()
    with Session(engine) as session:
        rank = func.row_number().over(order_by=Account.balance.desc()).label("rank")
        same(session.execute(select(Account.owner, rank).order_by(rank)).all(), [("bob", 1), ("ann", 2)])
        cte = select(Account.balance.label("b")).where(Account.balance > 5).cte("rich")
        same(session.scalars(select(func.max(cte.c.b))).one(), 7)
        exists = select(Account.id).where(Account.owner == "ann").exists()
        same(session.scalar(select(sa.case((exists, "yes"), else_="no"))), "yes")
        recursive = select(sa.literal(1).label("n")).cte(recursive=True)
        recursive = recursive.union_all(select(recursive.c.n + 1).where(recursive.c.n < 5))
        same(session.scalar(select(func.sum(recursive.c.n))), 15)
        same(session.scalars(select(Account.owner).where(Account.owner.ilike("%N%")).limit(1).offset(0)).all(), ["ann"])
        lateral = select((Account.balance * 2).label("twice")).lateral()
        same(sorted(session.scalars(select(lateral.c.twice)).all()), [10, 14])
        grouped = select(func.array_agg(postgresql.aggregate_order_by(Account.owner, Account.owner.desc())))
        same(session.scalar(grouped), ["bob", "ann"])
        same(session.scalar(select(func.count()).filter(Account.balance > 5).select_from(Account)), 1)


class Mood(enum.Enum):
    sad = 1
    ok = 2


def round_trip(name, **columns):
    """Inserts and reads a row with a column for each type and value."""
    made = table(name, *[sa.Column(column, kind) for column, (kind, _) in columns.items()])
    values = {column: value for column, (_, value) in columns.items()}
    with engine.begin() as db:
        db.execute(made.insert(), values)
        same(dict(db.execute(select(made)).mappings().one()), values)
    made.metadata.drop_all(engine)


@scenario
def scalar_types():
    round_trip(
        "sa_types",
        a=(sa.Boolean, True),
        b=(sa.BigInteger, 2**62),
        c=(sa.Numeric(10, 2), decimal.Decimal("1.50")),
        d=(sa.Double, 1.5),
        e=(sa.LargeBinary, b"\x00\xff"),
        f=(sa.DateTime(timezone=True), datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc)),
        g=(sa.Date, datetime.date(2024, 2, 29)),
        h=(sa.Interval, datetime.timedelta(days=1)),
        i=(sa.Uuid, uuid.UUID(int=5)),
        j=(sa.Text, "ä"),
        k=(sa.Time, datetime.time(1, 2, 3)),
    )


@scenario
def array_type():
    round_trip(
        "sa_arrays",
        a=(postgresql.ARRAY(sa.Text), ["a", 'b"']),
        b=(postgresql.ARRAY(sa.Integer, dimensions=2), [[1], [2]]),
    )


@scenario
def json_types():
    round_trip("sa_json", a=(sa.JSON, {"x": [1]}), b=(postgresql.JSONB, {"y": None}))
    made = table("sa_docs", sa.Column("doc", postgresql.JSONB))
    with engine.begin() as db:
        db.execute(made.insert(), {"doc": {"a": {"b": 5}}})
        same(db.scalar(select(made.c.doc["a"]["b"].as_integer())), 5)
        same(db.scalar(select(func.count()).where(made.c.doc.contains({"a": {}}))), 1)
        same(db.scalar(select(func.count()).where(made.c.doc.has_key("a"))), 1)


@scenario
def enum_type():
    round_trip("sa_enums", a=(sa.Enum(Mood, name="sa_mood"), Mood.ok))


@scenario
def range_type():
    round_trip("sa_ranges", a=(postgresql.INT4RANGE, postgresql.Range(1, 5)))


@scenario
def sequences_identity_and_computed_columns():
    made = table(
        "sa_made",
        sa.Column("id", sa.Integer, sa.Identity(start=10, always=True), primary_key=True),
        sa.Column("n", sa.Integer, sa.Sequence("sa_numbers", start=5)),
        sa.Column("twice", sa.Integer, sa.Computed("n * 2")),
        sa.Column("at", sa.DateTime, server_default=func.now()),
    )
    with engine.begin() as db:
        row = db.execute(made.insert().returning(made.c.id, made.c.n, made.c.twice)).one()
        same(tuple(row), (10, 5, 10))
    made.metadata.drop_all(engine)


@scenario
def transactions_and_nested_savepoints():
    accounts()
    with Session(engine) as session:
        with raises(IntegrityError) as found:
            with session.begin_nested():
                session.add(Account(owner="ann"))
        same(found.error.orig.diag.constraint_name, "sa_account_owner_key")
        with session.begin_nested() as outer:
            session.add(Account(owner="c"))
            with session.begin_nested():
                session.add(Account(owner="d"))
            outer.rollback()
        session.add(Account(owner="e"))
        session.commit()
        same(session.scalars(select(Account.owner).order_by(Account.owner)).all(), ["ann", "bob", "e"])


@scenario
def isolation_levels():
    accounts()
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "READ UNCOMMITTED"]:
        with engine.connect().execution_options(isolation_level=level) as db:
            same(db.scalar(text("SHOW transaction_isolation")), level.lower())
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
        db.execute(sa.update(Account).values(balance=1))
    with engine.connect().execution_options(postgresql_readonly=True, isolation_level="SERIALIZABLE") as db:
        with raises(DBAPIError, "25006"):
            db.execute(sa.update(Account).values(balance=2))


@scenario
def row_locks():
    accounts()
    ann = select(Account).where(Account.owner == "ann")
    with Session(engine) as one, Session(engine) as two:
        one.scalars(ann.with_for_update()).one()
        with raises(OperationalError, "55P03"):
            two.scalars(ann.with_for_update(nowait=True)).one()
        two.rollback()
        same(two.scalars(select(Account.owner).with_for_update(skip_locked=True, key_share=True)).all(), ["bob"])


@scenario
def errors():
    accounts()
    with engine.connect() as db:
        for sql, kind, state in [
            ("SELECT * FROM nosuch", ProgrammingError, "42P01"),
            ("SELECT nosuch FROM sa_account", ProgrammingError, "42703"),
            ("INSERT INTO sa_account (id) VALUES (9)", IntegrityError, "23502"),
            ("UPDATE sa_account SET balance = -1", IntegrityError, "23514"),
            ("SELECT 1 / 0", DBAPIError, "22012"),
        ]:
            with raises(kind, state):
                db.execute(text(sql))
            db.rollback()


@scenario
def streamed_results():
    with engine.connect() as db:
        rows = db.execution_options(yield_per=100).execute(text("SELECT * FROM generate_series(1, 1000)"))
        same([len(part) for part in rows.partitions(100)], [100] * 10)
        rows = db.execution_options(stream_results=True).execute(text("SELECT 1"))
        same(rows.scalar_one(), 1)


@scenario
def table_names_and_views():
    accounts()
    with engine.begin() as db:
        db.execute(text("CREATE OR REPLACE VIEW sa_view AS SELECT owner FROM sa_account"))
    found = inspect(engine)
    assert "sa_account" in found.get_table_names(), found.get_table_names()
    same(found.get_view_names(), ["sa_view"])
    assert "SELECT sa_account.owner" in found.get_view_definition("sa_view"), found.get_view_definition("sa_view")
    same(sorted(found.get_schema_names()), ["information_schema", "public"])
    same([name for name in found.get_sequence_names() if name.startswith("sa_account")], ["sa_account_id_seq"])
    same(found.get_materialized_view_names(), [])
    with engine.begin() as db:
        db.execute(text("DROP VIEW sa_view"))


@scenario
def reflected_columns():
    table(
        "sa_columns", sa.Column("a", sa.Numeric(8, 2), nullable=False, server_default="5"), sa.Column("b", sa.String(7))
    )
    columns = [
        (c["name"], str(c["type"]), c["nullable"], c["default"]) for c in inspect(engine).get_columns("sa_columns")
    ]
    same(columns, [("a", "NUMERIC(8, 2)", False, "'5'::numeric"), ("b", "VARCHAR(7)", True, None)])


@scenario
def reflected_keys_and_indexes():
    accounts()
    found = inspect(engine)
    same(found.get_pk_constraint("sa_account")["constrained_columns"], ["id"])
    same([unique["column_names"] for unique in found.get_unique_constraints("sa_account")], [["owner"]])
    indexes = {index["name"]: index["column_names"] for index in found.get_indexes("sa_account")}
    same(indexes["sa_balance"], ["balance", "id"])


@scenario
def reflected_checks():
    accounts()
    same(
        [(c["name"], c["sqltext"]) for c in inspect(engine).get_check_constraints("sa_account")],
        [("sa_solvent", "balance >= 0")],
    )


@scenario
def reflected_foreign_keys():
    accounts()
    same(inspect(engine).get_foreign_keys("sa_account"), [])


@scenario
def reflected_comments():
    made = table("sa_comments", sa.Column("a", sa.Integer, comment="a column"), comment="a table")
    same(inspect(engine).get_table_comment("sa_comments"), {"text": "a table"})
    same(inspect(engine).get_columns("sa_comments")[0]["comment"], "a column")
    made.metadata.drop_all(engine)


@scenario
def reflected_whole_schema():
    accounts()
    metadata = sa.MetaData()
    metadata.reflect(engine)
    same([column.name for column in metadata.tables["sa_account"].columns], ["id", "owner", "balance"])


@scenario
def enum_introspection():
    same(inspect(engine).get_enums(), [])
    same(inspect(engine).get_domains(), [])


def alembic(folder):
    """Makes the folder of migrations with two of them."""
    (folder / "versions").mkdir()
    (folder / "env.py").write_text(
        "from alembic import context\n"
        "from sqlalchemy import create_engine\n"
        "with create_engine(context.config.get_main_option('sqlalchemy.url')).connect() as db:\n"
        "    context.configure(connection=db, transactional_ddl=True)\n"
        "    with context.begin_transaction():\n"
        "        context.run_migrations()\n"
    )
    head = "import sqlalchemy as sa\nfrom alembic import op\nrevision = '{0}'\ndown_revision = {1!r}\n"
    (folder / "versions/one.py").write_text(
        head.format("one", None) + "def upgrade():\n"
        "    id = sa.Column('id', sa.Integer, primary_key=True)\n"
        "    op.create_table('al_items', id, sa.Column('name', sa.String(20)))\n"
        "def downgrade():\n    op.drop_table('al_items')\n"
    )
    (folder / "versions/two.py").write_text(
        head.format("two", "one") + "def upgrade():\n"
        "    op.add_column('al_items', sa.Column('n', sa.Integer, nullable=False, server_default='0'))\n"
        "    op.alter_column('al_items', 'name', new_column_name='title', type_=sa.Text, nullable=False)\n"
        "    op.create_index('al_by_n', 'al_items', ['n'])\n"
        "    op.create_unique_constraint('al_title', 'al_items', ['title'])\n"
        "    op.create_check_constraint('al_n', 'al_items', 'n >= 0')\n"
        "    op.bulk_insert(sa.table('al_items', sa.column('title')), [{'title': 'x'}])\n"
        "    op.execute('UPDATE al_items SET n = 3')\n"
        "def downgrade():\n"
        "    op.drop_constraint('al_n', 'al_items')\n"
        "    op.drop_constraint('al_title', 'al_items')\n"
        "    op.drop_index('al_by_n')\n"
        "    op.alter_column('al_items', 'title', new_column_name='name', type_=sa.String(20), nullable=True)\n"
        "    op.drop_column('al_items', 'n')\n"
    )
    config = Config()
    config.set_main_option("script_location", str(folder))
    config.set_main_option("path_separator", "os")
    config.set_main_option("sqlalchemy.url", ENGINE_URL)
    return config


@scenario
def alembic_migrations_up_and_down():
    with tempfile.TemporaryDirectory() as folder:
        config = alembic(pathlib.Path(folder))
        command.upgrade(config, "head")
        with engine.connect() as db:
            same(db.execute(text("SELECT id, title, n FROM al_items")).one(), (1, "x", 3))
        command.downgrade(config, "one")
        with engine.connect() as db:
            same(db.execute(text("SELECT * FROM al_items")).keys()._keys, ["id", "name"])
        command.downgrade(config, "base")
        assert not inspect(engine).has_table("al_items")


@scenario
def alembic_autogenerate():
    accounts()
    with engine.connect() as db:
        context = MigrationContext.configure(
            db,
            opts={"compare_type": True, "include_name": lambda name, kind, _: kind != "table" or name == "sa_account"},
        )
        same(compare_metadata(context, Base.metadata), [])
        db.execute(text("ALTER TABLE sa_account DROP COLUMN balance"))
        same(compare_metadata(context, Base.metadata)[0][0], "add_column")


@scenario
def pool_of_connections():
    pooled = create_engine(ENGINE_URL, pool_size=2, max_overflow=1, pool_pre_ping=True)
    with pooled.connect() as one, pooled.connect() as two:
        assert one.scalar(text("SELECT pg_backend_pid()")) != two.scalar(text("SELECT pg_backend_pid()"))
    with pooled.connect() as db:
        victim = db.scalar(text("SELECT pg_backend_pid()"))
    with engine.connect() as db:
        db.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": victim})
    with pooled.connect() as one, pooled.connect() as two:
        same((one.scalar(text("SELECT 1")), two.scalar(text("SELECT 2"))), (1, 2))
    pooled.dispose()


def over(driver):
    """Runs the basics over another driver."""
    other = create_engine(URL.replace("postgresql://", f"postgresql+{driver}://"))
    Base.metadata.drop_all(other)
    Base.metadata.create_all(other)
    with Session(other) as session:
        session.add_all([Account(owner=f"n{i}", balance=i) for i in range(5)])
        session.commit()
        same(session.scalars(select(Account.balance).order_by(Account.balance)).all(), [0, 1, 2, 3, 4])
        session.add(Account(owner="n1"))
        with raises(IntegrityError):
            session.commit()
    Base.metadata.drop_all(other)
    other.dispose()


@scenario
def over_psycopg2():
    over("psycopg2")


@scenario
async def over_asyncpg():
    other = create_async_engine(URL.replace("postgresql://", "postgresql+asyncpg://"))
    async with other.begin() as db:
        await db.run_sync(Base.metadata.drop_all)
        await db.run_sync(Base.metadata.create_all)
        await db.execute(sa.insert(Account), [{"owner": "a", "balance": 1}, {"owner": "b", "balance": 2}])
        same((await db.execute(select(func.sum(Account.balance)))).scalar_one(), 3)
        await db.run_sync(Base.metadata.drop_all)
    await other.dispose()


run(f"{sa.__version__}, Alembic {alembic_package.__version__}")
