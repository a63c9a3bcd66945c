"""The Django app of the queue. Limits idle transactions, and imports the pipelines of installed apps."""

from typing import Any
from weakref import WeakSet

from django.apps import AppConfig
from django.conf import settings
from django.db.backends.signals import connection_created
from django.utils.module_loading import autodiscover_modules

from dalston_queue.redis import is_web_process


class DalstonQueueConfig(AppConfig):
    name = "dalston_queue"
    verbose_name = "Dalston queue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        connection_created.connect(_limit_idle_transactions, dispatch_uid="dalston.limit_idle_transactions")
        autodiscover_modules("pipelines")  # of every installed app, see jobs/submit/spec.py


_limited: WeakSet[Any] = WeakSet()


def _limit_idle_transactions(connection: Any, **_: Any) -> None:
    """Let Postgres end the transaction of a process that is stopped or cut off: it holds locks on jobs, for which all
    other processes wait."""
    # Django sends the signal for each checkout from its pool, too: a known connection is left as it is.
    if connection.vendor == "postgresql" and connection.connection not in _limited:
        _limited.add(connection.connection)
        with connection.cursor() as cursor:
            limit_ms = int(settings.DALSTON_IDLE_TRANSACTION_S * 1000)
            cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, false)", [str(limit_ms)])
            if is_web_process():  # a request that no client waits for any more must not keep a connection of the pool
                limit_ms = int(settings.DALSTON_STATEMENT_TIMEOUT_S * 1000)
                cursor.execute("SELECT set_config('statement_timeout', %s, false)", [str(limit_ms)])
