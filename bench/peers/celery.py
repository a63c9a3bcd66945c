"""Celery: acks_late, reject_on_worker_lost, no results, prefetch 4, no gossip, mingle, heartbeat or events;
pool solo for 1 at a time, threads for more.

In the pipeline: acks_late, Redis as broker, results in Postgres by django-celery-results, one worker process of 32
threads, no gossip, mingle or events; one submit per task. Postgres has a task only when it is over, and no history.
"""

import os
from collections.abc import Callable
from urllib.parse import urlsplit

from celery import Celery

from bench.peers import probe

app = Celery("bench")
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=4,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)


@app.task(name="noop")  # type: ignore[untyped-decorator]
def noop(sent_ns: int) -> None:
    probe.ran(sent_ns)


@app.task(name="numbered", ignore_result=False)  # type: ignore[untyped-decorator]
def numbered(number: int) -> dict[str, int]:
    return {"number": number}


def sender(url: str) -> Callable[[int], object]:
    app.conf.broker_url = url
    # The transport sends again to a lost connection; `retry` would only add a wrapper per call.
    return lambda sent_ns: noop.apply_async((sent_ns,), retry=False)


def work(url: str, capacity: int, recovery_s: int | None) -> None:
    app.conf.broker_url = url
    if recovery_s is not None:
        app.conf.broker_transport_options = {
            "visibility_timeout": recovery_s,
            "unacked_restore_interval": 1,
            "unacked_restore_throttle": 1,
        }
    _run_worker("solo" if capacity == 1 else "threads", capacity)


def _run_worker(pool: str, capacity: int) -> None:
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]
    app.worker_main(["--quiet", "worker", f"--pool={pool}", f"--concurrency={capacity}", *quiet])


def prepare() -> None:
    _use_django()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def submit(count: int) -> None:
    _use_django()
    for number in range(count):
        numbered.apply_async((number,), retry=False)


def serve() -> None:
    _use_django()
    _run_worker("threads", 32)


def _use_django() -> None:
    import django
    from django.conf import settings

    if settings.configured:
        return
    url = urlsplit(os.environ["DATABASE_URL"])
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.path.lstrip("/"),
        "USER": url.username,
        "PASSWORD": url.password,
        "HOST": url.hostname,
        "PORT": url.port,
        "CONN_MAX_AGE": None,
    }
    settings.configure(DATABASES={"default": database}, INSTALLED_APPS=["django_celery_results"], USE_TZ=True)
    django.setup()
    app.conf.update(broker_url=os.environ["REDIS_URL"], result_backend="django-db", task_ignore_result=False)
