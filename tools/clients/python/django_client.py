"""The scenarios of Django."""

import contextlib
import datetime
import decimal
import importlib
import io
import pathlib
import sys
import tempfile
import uuid
from urllib.parse import urlparse

import django
from django.apps import AppConfig, apps
from django.conf import settings
from scenarios import URL, raises, run, same, scenario

url = urlparse(URL)
database = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": url.path.lstrip("/"),
    "USER": url.username,
    "PASSWORD": url.password or "",
    "HOST": url.hostname,
    "PORT": url.port,
}


class ClientsConfig(AppConfig):
    """This file as an application, which relations between its models need."""

    name = "__main__"
    label = "clients"
    path = str(pathlib.Path(__file__).parent)


settings.configure(
    DATABASES={"default": database},
    INSTALLED_APPS=[
        "__main__.ClientsConfig",
        "django.contrib.contenttypes",
        "django.contrib.auth",
        "django.contrib.sessions",
    ],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
)
django.setup()

from django.contrib.postgres.aggregates import ArrayAgg, StringAgg  # noqa: E402
from django.contrib.postgres.fields import ArrayField, IntegerRangeField  # noqa: E402
from django.contrib.postgres.search import SearchVector  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import DataError, IntegrityError, ProgrammingError, connection, connections, models, transaction  # noqa: E402
from django.db.models.functions import ExtractYear, Lower, Now, Rank, TruncMonth  # noqa: E402
from django.db.utils import OperationalError  # noqa: E402
from psycopg.types.range import Range  # noqa: E402


class Account(models.Model):
    owner = models.CharField(max_length=30, unique=True)
    balance = models.IntegerField(default=0)
    opened = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "clients"
        db_table = "django_account"
        indexes = [models.Index(fields=["balance", "-id"], name="django_balance")]
        constraints = [models.CheckConstraint(condition=models.Q(balance__gte=0), name="django_solvent")]


class Author(models.Model):
    name = models.CharField(max_length=30)

    class Meta:
        app_label = "clients"
        db_table = "django_author"


class Reader(models.Model):
    name = models.CharField(max_length=30)

    class Meta:
        app_label = "clients"
        db_table = "django_reader"


class Book(models.Model):
    title = models.CharField(max_length=30)
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    readers = models.ManyToManyField(Reader)

    class Meta:
        app_label = "clients"
        db_table = "django_book"


class Typed(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    price = models.DecimalField(max_digits=10, decimal_places=2)
    big = models.BigIntegerField()
    small = models.PositiveSmallIntegerField()
    ratio = models.FloatField()
    data = models.BinaryField()
    day = models.DateField()
    time = models.TimeField()
    length = models.DurationField()
    good = models.BooleanField()
    ip = models.GenericIPAddressField()
    slug = models.SlugField()
    url = models.URLField()

    class Meta:
        app_label = "clients"
        db_table = "django_typed"


def one_field(name, field):
    """A model with one field of its own."""
    meta = type("Meta", (), {"app_label": "clients", "db_table": f"django_{name}"})
    return type(name.title(), (models.Model,), {"__module__": __name__, "Meta": meta, "value": field})


Document = one_field("document", models.JSONField())
Tagged = one_field("tagged", ArrayField(models.CharField(max_length=10)))
Ranged = one_field("ranged", IntegerRangeField())


@contextlib.contextmanager
def tables(*made):
    """Makes the tables of models anew, and drops them afterwards."""
    many = [field.remote_field.through for model in made for field in model._meta.local_many_to_many]
    for model in [*many, *reversed(made)]:
        with connection.cursor() as cursor:
            cursor.execute(f'DROP TABLE IF EXISTS "{model._meta.db_table}" CASCADE')
    with connection.schema_editor() as editor:
        for model in made:
            editor.create_model(model)
    yield
    with connection.schema_editor() as editor:
        for model in reversed(made):
            editor.delete_model(model)


@contextlib.contextmanager
def accounts():
    with tables(Account):
        Account.objects.create(owner="ann", balance=5)
        Account.objects.create(owner="bob", balance=7)
        yield


@scenario
def connect_and_raw_sql():
    assert connection.pg_version >= 150000
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::int + 1", [1])
        same(cursor.fetchone(), (2,))
    assert connection.features.supports_transactions


@scenario
def orm_crud():
    with accounts():
        same(list(Account.objects.order_by("id").values_list("owner", "balance")), [("ann", 5), ("bob", 7)])
        Account.objects.filter(owner="ann").update(balance=models.F("balance") + 1)
        ann = Account.objects.get(owner="ann")
        same(ann.balance, 6)
        ann.balance = 8
        ann.save()
        same(Account.objects.aggregate(models.Sum("balance"))["balance__sum"], 15)
        same(Account.objects.get_or_create(owner="eve")[1], True)
        same(Account.objects.update_or_create(owner="eve", defaults={"balance": 2})[1], False)
        same(Account.objects.filter(balance__gt=5, opened__year__gt=2000).count(), 2)
        same(Account.objects.all().delete()[0], 3)


@scenario
def bulk_changes():
    with tables(Account):
        made = Account.objects.bulk_create([Account(owner=f"o{i}", balance=i) for i in range(500)], batch_size=100)
        assert made[0].pk
        for account in made[:10]:
            account.balance = 1000
        same(Account.objects.bulk_update(made[:10], ["balance"]), 10)
        Account.objects.bulk_create(
            [Account(owner="o1", balance=3)], update_conflicts=True, unique_fields=["owner"], update_fields=["balance"]
        )
        same(Account.objects.get(owner="o1").balance, 3)
        Account.objects.bulk_create([Account(owner="o1")], ignore_conflicts=True)
        same(len(Account.objects.in_bulk(["o2", "o3"], field_name="owner")), 2)


@scenario
def queries():
    with accounts():
        window = models.Window(Rank(), order_by=models.F("balance").desc())
        same(list(Account.objects.annotate(r=window).order_by("r").values_list("owner", "r")), [("bob", 1), ("ann", 2)])
        case = models.Case(models.When(balance__gt=5, then=models.Value("rich")), default=models.Value("poor"))
        same(list(Account.objects.annotate(k=case).order_by("id").values_list("k", flat=True)), ["poor", "rich"])
        sub = Account.objects.filter(balance__gt=models.OuterRef("balance")).values("owner")[:1]
        same(
            list(Account.objects.annotate(s=models.Subquery(sub)).order_by("id").values_list("s", flat=True)),
            ["bob", None],
        )
        same(Account.objects.filter(models.Exists(Account.objects.filter(owner="ann"))).count(), 2)
        same(Account.objects.filter(models.Q(owner__istartswith="A") | models.Q(owner__regex="^z")).count(), 1)
        same(
            Account.objects.annotate(y=ExtractYear("opened"), m=TruncMonth("opened")).filter(opened__lte=Now()).count(),
            2,
        )
        same(
            list(Account.objects.annotate(low=Lower("owner")).order_by("-low").values_list("low", flat=True)),
            ["bob", "ann"],
        )
        union = Account.objects.filter(owner="ann").union(Account.objects.filter(owner="bob"))
        same(union.count(), 2)
        same(list(Account.objects.distinct("owner").order_by("owner").values_list("owner", flat=True)), ["ann", "bob"])
        same([a.owner for a in Account.objects.raw("SELECT * FROM django_account WHERE balance > %s", [5])], ["bob"])
        assert "django_account" in Account.objects.filter(owner="ann").explain()


@scenario
def aggregates_of_postgres():
    with accounts():
        same(Account.objects.aggregate(a=ArrayAgg("owner", ordering="owner"))["a"], ["ann", "bob"])
        same(Account.objects.aggregate(a=StringAgg("owner", delimiter="-", ordering="-owner"))["a"], "bob-ann")


@scenario
def full_text_search():
    with accounts():
        same(Account.objects.annotate(search=SearchVector("owner")).filter(search="ann").count(), 1)


@scenario
def relations():
    with tables(Reader, Author, Book):
        ann = Author.objects.create(name="ann")
        reader = Reader.objects.create(name="reader")
        book = Book.objects.create(title="one", author=ann)
        book.readers.add(reader)
        same(list(Book.objects.select_related("author").values_list("author__name", flat=True)), ["ann"])
        same([len(a.books.all()) for a in Author.objects.prefetch_related("books__readers")], [1])
        same(Author.objects.annotate(n=models.Count("books__readers")).get().n, 1)
        with raises(IntegrityError, "23503"):
            Book.objects.create(title="two", author_id=99)
        ann.delete()
        same(Book.objects.count(), 0)


@scenario
def field_types():
    with tables(Typed):
        values = dict(
            price=decimal.Decimal("1.50"), big=2**62, small=7, ratio=1.5, data=b"\x00\xff",
            day=datetime.date(2024, 2, 29), time=datetime.time(1, 2, 3), length=datetime.timedelta(days=1, seconds=5),
            good=True, ip="10.0.0.1", slug="a-b", url="http://example.com",
        )  # fmt: skip
        key = Typed.objects.create(**values).pk
        found = Typed.objects.get(pk=key)
        same(
            {name: getattr(found, name) for name in values if name != "data"},
            {k: v for k, v in values.items() if k != "data"},
        )
        same(bytes(found.data), values["data"])


@scenario
def json_field():
    with tables(Document):
        Document.objects.create(value={"a": {"b": [1, 2]}, "c": None})
        same(Document.objects.filter(value__a__b__1=2).count(), 1)
        same(Document.objects.filter(value__has_key="c", value__contains={"a": {}}).count(), 1)


@scenario
def array_field():
    with tables(Tagged):
        Tagged.objects.create(value=["x", "y"])
        same(Tagged.objects.filter(value__contains=["x"]).get().value, ["x", "y"])
        same(Tagged.objects.filter(value__overlap=["y", "z"], value__len=2, value__0="x").count(), 1)


@scenario
def range_field():
    with tables(Ranged):
        Ranged.objects.create(value=Range(1, 5))
        same(Ranged.objects.filter(value__contains=3).count(), 1)


@scenario
def transactions_and_nested_savepoints():
    with accounts():
        with transaction.atomic():
            with raises(IntegrityError) as found:
                with transaction.atomic():
                    Account.objects.create(owner="ann")
            same(found.error.__cause__.diag.constraint_name, "django_account_owner_key")
            with transaction.atomic():
                point = transaction.savepoint()
                Account.objects.create(owner="c")
                transaction.savepoint_rollback(point)
                Account.objects.create(owner="d")
        same(set(Account.objects.values_list("owner", flat=True)), {"ann", "bob", "d"})
        done = []
        with transaction.atomic():
            transaction.on_commit(lambda: done.append(1))
        same(done, [1])


@scenario
def row_locks():
    with accounts(), transaction.atomic():
        same(Account.objects.select_for_update(of=("self",), no_key=True).get(owner="ann").balance, 5)
        same(len(Account.objects.select_for_update(skip_locked=True)), 2)


@scenario
def errors():
    with accounts():
        for change, kind, state in [
            (lambda: Account.objects.create(owner=None), IntegrityError, "23502"),
            (lambda: Account.objects.create(owner="x", balance=-1), IntegrityError, "23514"),
            (lambda: Account.objects.create(owner="x" * 40), DataError, "22001"),
            (lambda: list(Account.objects.raw("SELECT * FROM nosuch")), ProgrammingError, "42P01"),
        ]:
            with raises(kind, state), transaction.atomic():
                change()


@scenario
def streamed_rows():
    with tables(Account):
        Account.objects.bulk_create([Account(owner=f"o{i}", balance=i) for i in range(300)])
        same(sum(a.balance for a in Account.objects.iterator(chunk_size=50)), 44850)


@scenario
def statement_timeout():
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '100ms'")
        with raises(OperationalError, "57014"):
            cursor.execute("SELECT pg_sleep(5)")
        cursor.execute("RESET statement_timeout")


@scenario
def introspection():
    with accounts(), connection.cursor() as cursor:
        found = connection.introspection
        assert "django_account" in found.table_names(cursor), found.table_names(cursor)
        constraints = found.get_constraints(cursor, "django_account")
        assert any(c["unique"] and c["columns"] == ["owner"] for c in constraints.values()), constraints
        same(constraints["django_balance"]["orders"], ["ASC", "DESC"])
        assert constraints["django_solvent"]["check"]
        same(
            [c.name for c in found.get_table_description(cursor, "django_account")],
            ["id", "owner", "balance", "opened"],
        )
        same(found.get_primary_key_column(cursor, "django_account"), "id")
        same(found.get_relations(cursor, "django_account"), {})
        same(found.get_sequences(cursor, "django_account")[0]["column"], "id")


@scenario
def inspectdb():
    with accounts():
        out = io.StringIO()
        call_command("inspectdb", "django_account", stdout=out)
        text = out.getvalue()
        assert "owner = models.CharField(unique=True, max_length=30)" in text, text
        assert "Unable to inspect" not in text, text


def field(model, name, made):
    """A field of a model as it will be."""
    made.set_attributes_from_name(name)
    made.model = model
    return made


@scenario
def changes_of_a_schema():
    old = Account._meta.get_field
    with accounts(), connection.schema_editor() as editor:
        editor.add_field(Account, field(Account, "more", models.IntegerField(default=3)))
        wider = models.CharField(max_length=60, unique=True, db_index=True)
        editor.alter_field(Account, old("owner"), field(Account, "owner", wider))
        editor.alter_field(Account, old("balance"), field(Account, "balance", models.BigIntegerField(default=0)))
        editor.alter_field(Account, old("opened"), field(Account, "closed", models.DateTimeField(null=True)))
        editor.remove_index(Account, Account._meta.indexes[0])
        editor.remove_constraint(Account, Account._meta.constraints[0])
        editor.add_index(Account, models.Index(Lower("owner"), name="django_lower"))
        editor.add_constraint(Account, models.UniqueConstraint(fields=["balance", "owner"], name="django_both"))
        editor.alter_db_table(Account, "django_account", "django_renamed")
        editor.alter_db_table(Account, "django_renamed", "django_account")


MIGRATIONS = {
    "0001_initial": """
    dependencies = []
    operations = [migrations.CreateModel("Item", [
        ("id", models.BigAutoField(primary_key=True)),
        ("name", models.CharField(max_length=20)),
    ])]
""",
    "0002_more": """
    dependencies = [("shop", "0001_initial")]
    operations = [
        migrations.AddField("Item", "price", models.DecimalField(max_digits=8, decimal_places=2, default=1)),
        migrations.RenameField("Item", "name", "title"),
        migrations.AddIndex("Item", models.Index(fields=["price"], name="shop_price")),
        migrations.RunSQL("INSERT INTO shop_item (title, price) VALUES ('x', 2)", "DELETE FROM shop_item"),
    ]
""",
}


@scenario
def migrations_up_and_down():
    with tempfile.TemporaryDirectory() as folder:
        package = pathlib.Path(folder) / "shop/migrations"
        package.mkdir(parents=True)
        for file in [package.parent / "__init__.py", package / "__init__.py"]:
            file.write_text("")
        for name, body in MIGRATIONS.items():
            head = "from django.db import migrations, models\nclass Migration(migrations.Migration):"
            (package / f"{name}.py").write_text(head + body)
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        apps.set_installed_apps([*settings.INSTALLED_APPS, "shop"])
        try:
            call_command("migrate", "shop", verbosity=0)
            with connection.cursor() as cursor:
                cursor.execute("SELECT title, price FROM shop_item")
                same(cursor.fetchall(), [("x", decimal.Decimal("2.00"))])
            call_command("migrate", "shop", "0001", verbosity=0)
            call_command("migrate", "shop", "zero", verbosity=0)
            assert "shop_item" not in connection.introspection.table_names()
        finally:
            apps.unset_installed_apps()


@scenario
def migrations_of_its_own_apps():
    from django.contrib.auth.models import Group, User

    call_command("migrate", verbosity=0)
    user = User.objects.create_user("ann", "ann@example.com", "secret")
    user.groups.add(Group.objects.create(name="readers"))
    assert User.objects.get(groups__name="readers").check_password("secret")
    out = io.StringIO()
    call_command("dumpdata", "auth.group", stdout=out)
    assert "readers" in out.getvalue()
    call_command("flush", interactive=False, verbosity=0)
    same(User.objects.count(), 0)


@scenario
def sequence_reset():
    from django.core.management.color import no_style

    with accounts(), connection.cursor() as cursor:
        for sql in connection.ops.sequence_reset_sql(no_style(), [Account]):
            cursor.execute(sql)
        same(Account.objects.create(owner="next").pk, 3)


def reconnect():
    """A failed change of a schema leaves Django's connection in a transaction."""
    connection.close()
    del connections["default"]


run(django.get_version(), before=reconnect)
