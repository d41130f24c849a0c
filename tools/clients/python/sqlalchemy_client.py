"""The scenario of SQLAlchemy, over psycopg."""

import os

from sqlalchemy import Index, Integer, String, create_engine, inspect, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

engine = create_engine(os.environ["CLIENT_URL"].replace("postgresql://", "postgresql+psycopg://"))


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "sqlalchemy_t"
    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(String(30), unique=True)
    balance: Mapped[int] = mapped_column(Integer, default=0)


Index("sqlalchemy_balance", Account.balance, Account.id)
Base.metadata.drop_all(engine)
Base.metadata.create_all(engine)
with Session(engine) as session:
    session.add_all([Account(owner="ann", balance=5), Account(owner="bob", balance=7)])
    session.commit()
    try:
        with session.begin_nested():
            session.add(Account(owner="ann"))
    except IntegrityError as error:
        assert error.orig.diag.constraint_name == "sqlalchemy_t_owner_key", error.orig.diag.constraint_name
    ann = session.scalars(select(Account).where(Account.owner == "ann")).one()
    ann.balance += 1
    session.commit()
    assert session.scalars(select(Account.balance).order_by(Account.id)).all() == [6, 7]
    session.delete(ann)
    session.commit()

# The schema as it is read back. Columns are read by functions of JSON, which Gnomon lacks.
found = inspect(engine)
assert "sqlalchemy_t" in found.get_table_names()
assert found.get_pk_constraint("sqlalchemy_t")["constrained_columns"] == ["id"]
assert [unique["column_names"] for unique in found.get_unique_constraints("sqlalchemy_t")] == [["owner"]]
indexes = {index["name"]: index["column_names"] for index in found.get_indexes("sqlalchemy_t")}
assert indexes["sqlalchemy_balance"] == ["balance", "id"], indexes
Base.metadata.drop_all(engine)
