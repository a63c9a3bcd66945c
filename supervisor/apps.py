"""The supervisor as a Django app: management commands, no models."""

from django.apps import AppConfig


class SupervisorConfig(AppConfig):
    name = "supervisor"
    verbose_name = "Node supervisor"
