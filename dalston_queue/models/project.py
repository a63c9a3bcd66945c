"""A project owns jobs and the tokens that may submit and see them."""

from django.db import models

from dalston_queue.ids import uuid7


class Project(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.SlugField(max_length=80, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "dalston_project"

    def __str__(self) -> str:
        return self.name
