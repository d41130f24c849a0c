"""The scenario of Django."""

import os
from urllib.parse import urlparse

import django
from django.conf import settings

url = urlparse(os.environ["CLIENT_URL"])
database = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": url.path.lstrip("/"),
    "USER": url.username,
    "PASSWORD": url.password or "",
    "HOST": url.hostname,
    "PORT": url.port,
}
settings.configure(DATABASES={"default": database}, INSTALLED_APPS=[], USE_TZ=True)
django.setup()

from django.db import IntegrityError, connection, models, transaction  # noqa: E402


class Account(models.Model):
    owner = models.CharField(max_length=30, unique=True)
    balance = models.IntegerField(default=0)
    opened = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "clients"
        db_table = "django_t"


with connection.cursor() as cursor:
    cursor.execute("DROP TABLE IF EXISTS django_t")
with connection.schema_editor() as editor:
    editor.create_model(Account)
with transaction.atomic():
    ann = Account.objects.create(owner="ann", balance=5)
    try:
        with transaction.atomic():
            Account.objects.create(owner="ann")
        raise AssertionError("a second ann")
    except IntegrityError as error:
        assert error.__cause__.diag.sqlstate == "23505"
    with transaction.atomic():
        Account.objects.create(owner="bob", balance=7)
assert list(Account.objects.order_by("id").values_list("owner", "balance")) == [("ann", 5), ("bob", 7)]
Account.objects.filter(owner="ann").update(balance=models.F("balance") + 1)
ann.refresh_from_db()
assert ann.balance == 6
assert Account.objects.aggregate(models.Sum("balance"))["balance__sum"] == 13
assert Account.objects.get_or_create(owner="eve")[1]
assert Account.objects.filter(balance__gt=5, opened__year__gt=2000).count() == 2
assert "django_t" in connection.introspection.table_names()
with connection.cursor() as cursor:
    constraints = connection.introspection.get_constraints(cursor, "django_t")
assert any(c["unique"] and c["columns"] == ["owner"] for c in constraints.values()), constraints
Account.objects.all().delete()
with connection.schema_editor() as editor:
    editor.delete_model(Account)
