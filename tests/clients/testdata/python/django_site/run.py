"""Django: migrations forwards and back, and rows through the ORM.

The environment names the database: DB_HOST, DB_PORT, DB_NAME.
"""

import datetime
import decimal
import os
import uuid

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"

import django  # noqa: E402  the settings come first
from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, connection, models, transaction  # noqa: E402

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from shop.models import Product, Shelf, Tag  # noqa: E402


def constraints():
    with connection.cursor() as cursor:
        return connection.introspection.get_constraints(cursor, "shop_product")


def check_tables():
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f"ADMIN CHECK TABLE `{table}`")


def migrated():
    assert Product.objects.filter(title="Größe 700", price=700).count() == 1
    expected = {"kind_price", "one_token"}
    if connection.features.supports_expression_indexes:  # by the server's version
        expected.add("lower_title")
    if connection.features.supports_table_check_constraints:
        expected.add("price_not_negative")
    assert expected <= set(constraints()), constraints()
    assert any(c["unique"] and c["columns"] == ["title", "released"] for c in constraints().values())
    check_tables()


def rows():
    token = uuid.uuid4()
    product = Product.objects.create(
        title="日本語 😀 '\\", price=decimal.Decimal("1234567890123456.7891"), added=datetime.datetime(2024, 2, 29, 23, 59, 58, 45678, datetime.UTC),
        released=datetime.date(2024, 2, 29), lasts=datetime.timedelta(days=3, microseconds=45678), rating=0.1,
        data={"n": 9007199254740993, "list": [None, "ß"]}, cover=bytes(range(256)), token=token, origin="2001:db8::1",
    )
    product.tags.set([Tag.objects.create(word=w) for w in ("neu", "été")])
    found = Product.objects.prefetch_related("tags").get(token=token)
    for field in ("title", "price", "added", "released", "lasts", "rating", "data", "token", "origin", "visible"):
        assert getattr(found, field) == getattr(product, field), field
    assert bytes(found.cover) == bytes(range(256)) and {t.word for t in found.tags.all()} == {"neu", "été"}
    assert Product.objects.get(data__n=9007199254740993) == product and Product.objects.filter(data__list__contains="ß").exists()

    Product.objects.bulk_create([Product(title=f"child {i}", parent=product, price=i) for i in range(200)])
    total = product.children.aggregate(total=models.Sum("price"), n=models.Count("id"))
    assert total == {"total": decimal.Decimal(19900), "n": 200}, total
    assert Product.objects.filter(kind="b", price__lt=10).order_by("-price").first().price == 9
    by_year = Product.objects.filter(released__isnull=False).annotate(year=models.functions.ExtractYear("released")).values("year").annotate(n=models.Count("id"))
    assert {r["year"]: r["n"] for r in by_year.order_by()}[2020] == 366
    product.children.filter(price__gte=100).update(stock=models.F("stock") + 7)
    assert product.children.filter(stock=7).count() == 100

    wrong = [{"title": "Größe 1", "released": datetime.date(2020, 1, 2)}, {"title": "y", "token": token}, {"title": "z", "parent_id": 10**9}]
    if connection.features.supports_table_check_constraints:
        wrong.append({"title": "x", "price": -1})
    for bad in wrong:
        try:
            with transaction.atomic():
                Product.objects.create(**bad)
        except (IntegrityError, django.db.utils.OperationalError) as error:
            assert error.args[0] in (1062, 3819, 1452), error
        else:
            raise AssertionError(f"{bad} was accepted")
    try:
        with transaction.atomic():
            Product.objects.filter(title__startswith="child").delete()
            with transaction.atomic():
                Shelf.objects.create(product=product)
            raise KeyError
    except KeyError:
        pass
    assert product.children.count() == 200 and not Shelf.objects.exists()
    with transaction.atomic():
        locked = Product.objects.select_for_update().get(pk=product.pk)
        Shelf.objects.update_or_create(product=locked, defaults={"amount": 2**62})
    assert Shelf.objects.select_related("product").get().product.title == product.title
    Shelf.objects.all().delete()
    product.delete()
    assert not Product.objects.filter(title__startswith="child").exists()

    user = get_user_model().objects.create_user("zoë", password="geheim")
    assert get_user_model().objects.get(username="zoë").check_password("geheim") and user.pk
    print("rows: fine")


call_command("migrate", verbosity=0)
call_command("makemigrations", check=True, dry_run=True, verbosity=1)
migrated()
rows()
call_command("inspectdb", "shop_product", stdout=open(os.devnull, "w"))
call_command("migrate", "shop", "0002", verbosity=0)
check_tables()
call_command("migrate", "shop", verbosity=0)
migrated()
call_command("migrate", "shop", "zero", verbosity=0)
assert "shop_product" not in connection.introspection.table_names()
