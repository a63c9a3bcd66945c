"""Celery and django-celery-results: acks_late, Redis as broker, results in Postgres, one worker process of 32 threads,
no gossip, mingle or events; one submit per task. Postgres knows a task only when it is over; there is no history.
"""

import os
from urllib.parse import urlsplit

import django
from celery import Celery
from django.conf import settings
from django.core.management import call_command

database = urlsplit(os.environ["DATABASE_URL"])
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": database.path.lstrip("/"),
            "USER": database.username,
            "PASSWORD": database.password,
            "HOST": database.hostname,
            "PORT": database.port,
            "CONN_MAX_AGE": None,
        }
    },
    INSTALLED_APPS=["django_celery_results"],
    USE_TZ=True,
)
django.setup()

app = Celery("bench", broker=os.environ["REDIS_URL"], backend="django-db")
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=4,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")  # type: ignore[untyped-decorator]
def noop(number: int) -> dict[str, int]:
    return {"number": number}


def prepare() -> None:
    call_command("migrate", verbosity=0)


def submit(count: int) -> None:
    for number in range(count):
        noop.apply_async((number,), retry=False)


def work() -> None:
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]
    app.worker_main(["--quiet", "worker", "--pool=threads", "--concurrency=32", *quiet])
