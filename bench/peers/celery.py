"""Celery: acks_late, reject_on_worker_lost, no results, prefetch 4, no gossip, mingle, heartbeat or events;
pool solo for 1 at a time, threads for more.
"""

from collections.abc import Callable

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


def sender(url: str) -> Callable[[int], None]:
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
    pool = "solo" if capacity == 1 else "threads"
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR", "--quiet"]
    app.worker_main(["--quiet", "worker", f"--pool={pool}", f"--concurrency={capacity}", *quiet[:-1]])
