import django.db.models.deletion
from django.db import migrations, models
from django.db.models.functions import Lower


class Migration(migrations.Migration):
    dependencies = [("shop", "0002_data")]
    operations = [
        migrations.RenameField("Product", "name", "title"),
        migrations.AlterField("Product", "title", models.CharField(db_index=True, max_length=120)),
        migrations.AlterField("Product", "price", models.DecimalField(decimal_places=4, default=0, max_digits=20)),
        migrations.AlterField("Product", "stock", models.PositiveIntegerField(default=0)),
        migrations.RemoveField("Product", "obsolete"),
        migrations.AddField("Product", "summary", models.TextField(blank=True, default="")),
        migrations.AddIndex("Product", models.Index(fields=["kind", "-price"], name="kind_price")),
        migrations.AddIndex("Product", models.Index(Lower("title"), name="lower_title")),
        migrations.AlterUniqueTogether("Product", {("title", "released")}),
        migrations.AddConstraint("Product", models.CheckConstraint(condition=models.Q(("price__gte", 0)), name="price_not_negative")),
        migrations.AddConstraint("Product", models.UniqueConstraint(fields=["token"], name="one_token")),
        migrations.CreateModel(
            "Rack",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("amount", models.BigIntegerField(default=0)),
                ("product", models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, to="shop.product")),
            ],
        ),
        migrations.RenameModel("Rack", "Shelf"),
    ]
