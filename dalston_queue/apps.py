"""The Django app that holds Dalston's truth: jobs, tasks, their history, and who may touch them."""

from django.apps import AppConfig


class DalstonQueueConfig(AppConfig):
    name = "dalston_queue"
    verbose_name = "Dalston queue"
    default_auto_field = "django.db.models.BigAutoField"
