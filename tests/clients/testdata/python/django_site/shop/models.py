"""The models as the last migration leaves them."""

from django.db import models
from django.db.models.functions import Lower


class Tag(models.Model):
    word = models.CharField(max_length=20, primary_key=True)


class Product(models.Model):
    class Kind(models.TextChoices):
        BOOK = "b"
        GAME = "g"

    title = models.CharField(max_length=120, db_index=True)
    kind = models.CharField(max_length=1, choices=Kind, default=Kind.BOOK)
    price = models.DecimalField(max_digits=20, decimal_places=4, default=0)
    added = models.DateTimeField(null=True)
    released = models.DateField(null=True)
    lasts = models.DurationField(null=True)
    rating = models.FloatField(null=True)
    stock = models.PositiveIntegerField(default=0)
    data = models.JSONField(null=True)
    cover = models.BinaryField(null=True)
    token = models.UUIDField(null=True)
    visible = models.BooleanField(default=True)
    origin = models.GenericIPAddressField(null=True)
    summary = models.TextField(blank=True, default="")
    tags = models.ManyToManyField(Tag)
    parent = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="children")

    class Meta:
        indexes = [
            models.Index(fields=["kind", "-price"], name="kind_price"),
            models.Index(Lower("title"), name="lower_title"),
        ]
        unique_together = [("title", "released")]
        constraints = [
            models.CheckConstraint(condition=models.Q(price__gte=0), name="price_not_negative"),
            models.UniqueConstraint(fields=["token"], name="one_token"),
        ]


class Shelf(models.Model):
    product = models.OneToOneField(Product, on_delete=models.PROTECT)
    amount = models.BigIntegerField(default=0)
