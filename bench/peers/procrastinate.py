"""Procrastinate, for the pipeline only.

In the pipeline: queue and history in Postgres, one worker process with concurrency 32, submits in batches of 200.
"""

import os

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

connector = PsycopgConnector(conninfo=os.environ["DATABASE_URL"], min_size=4, max_size=8)
app = App(connector=connector)


@app.task(name="noop", pass_context=False)  # type: ignore[untyped-decorator]
async def noop(number: int) -> dict[str, int]:
    return {"number": number}


def prepare() -> None:
    with app.replace_connector(_sync()) as synchronous, synchronous.open():
        synchronous.schema_manager.apply_schema()


def submit(count: int) -> None:
    with app.replace_connector(_sync()) as synchronous, synchronous.open():
        for begin in range(0, count, 200):
            numbers = range(begin, min(begin + 200, count))
            synchronous.tasks["noop"].batch_defer(*({"number": number} for number in numbers))


def serve() -> None:
    app.run_worker(concurrency=32, delete_jobs="never", install_signal_handlers=False)


def _sync() -> SyncPsycopgConnector:
    return SyncPsycopgConnector(conninfo=os.environ["DATABASE_URL"])
