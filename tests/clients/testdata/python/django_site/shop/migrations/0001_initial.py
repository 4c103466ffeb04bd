import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel("Tag", [("word", models.CharField(max_length=20, primary_key=True, serialize=False))]),
        migrations.CreateModel(
            "Product",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=40)),
                ("kind", models.CharField(choices=[("b", "Book"), ("g", "Game")], default="b", max_length=1)),
                ("price", models.DecimalField(decimal_places=2, default=0, max_digits=8)),
                ("added", models.DateTimeField(null=True)),
                ("released", models.DateField(null=True)),
                ("lasts", models.DurationField(null=True)),
                ("rating", models.FloatField(null=True)),
                ("stock", models.IntegerField(null=True)),
                ("data", models.JSONField(null=True)),
                ("cover", models.BinaryField(null=True)),
                ("token", models.UUIDField(null=True)),
                ("visible", models.BooleanField(default=True)),
                ("origin", models.GenericIPAddressField(null=True)),
                ("obsolete", models.IntegerField(null=True)),
                ("parent", models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name="children", to="shop.product")),
                ("tags", models.ManyToManyField(to="shop.tag")),
            ],
        ),
    ]
