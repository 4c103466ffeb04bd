import datetime

from django.db import migrations


def fill(apps, schema_editor):
    product = apps.get_model("shop", "Product")
    day = datetime.date(2020, 1, 1)
    product.objects.bulk_create(
        [product(name=f"Größe {i}", price=i, stock=i, released=day + datetime.timedelta(days=i), kind="bg"[i % 2]) for i in range(1000)],
        batch_size=300,
    )


def empty(apps, schema_editor):
    apps.get_model("shop", "Product").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]
    operations = [migrations.RunPython(fill, empty)]
