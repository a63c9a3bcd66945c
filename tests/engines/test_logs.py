"""An engine's log: a JSON line per claim and settlement, and the author's own lines with the ids of their task."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dalston_queue.broker import Broker, Consumer, EventReader
from dalston_queue.broker.protocol.messages import Event, TaskMessage
from dalston_queue.broker.protocol.types import Cause
from tests.support import Spawned, wait_until

QUEUE = "logged"
SECRET = "s3cr3t-in-the-parameters"
MANIFEST = "id: logged\nstage: logged\ncommand: [python, engine.py]\ncapacity: 2\n"
CODE = """
import asyncio, logging
from engines.sdk import Engine, Task

class Logged(Engine):
    def load(self) -> None:
        logging.getLogger("author").info("loaded %d models", 2)

    {run}

Logged().serve()
"""
SYNC = """
    def run(self, task: Task) -> object:
        logging.getLogger("author").warning("decoding\\nthe input", extra={"seconds": 3})
        if task.parameters.get("fail"):
            raise ValueError("can't read " + task.parameters["text"])
        return {"text": task.parameters["text"]}
"""
ASYNC = """
    async def run(self, task: Task) -> object:
        await asyncio.sleep(0.05)  # the other task runs meanwhile
        logging.getLogger("author").warning("decoding")
"""

Start = Callable[..., Spawned]


@pytest.fixture
def start(tmp_path: Path, spawn: Callable[..., Spawned], process_env: dict[str, str]) -> Start:
    def start(run: str = SYNC, **variables: str) -> Spawned:
        (tmp_path / "engine.py").write_text(CODE.format(run=run.strip()))
        (tmp_path / "engine.yaml").write_text(MANIFEST)
        env = {name: value for name, value in process_env.items() if name != "DALSTON_DEV"} | variables
        return spawn("-m", "engines.sdk", "run", str(tmp_path / "engine.yaml"), env=env)

    return start


def submit(broker: Broker, **parameters: Any) -> str:
    task = str(uuid.uuid4())
    message = TaskMessage(
        task_id=task,
        job_id=task,
        queue=QUEUE,
        task_type=QUEUE,
        attempt=1,
        parameters={"text": SECRET} | parameters,
        trace_id=f"trace-of-{task}",
    )
    broker.append([message])
    return task


def lines(engine: Spawned, event: str) -> list[dict[str, Any]]:
    """Every line of a production log is JSON."""
    read = [json.loads(line) for line in engine.output.splitlines()]
    return [line for line in read if line["event"] == event]


def wait_for(engine: Spawned, event: str, count: int) -> list[dict[str, Any]]:
    return wait_until(
        lambda: found if len(found := lines(engine, event)) == count else None, what=f"{event} in\n{engine.output}"
    )


def ids(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in ("trace_id", "job_id", "task_id", "attempt"))


def end(engine: Spawned, broker: Broker) -> None:
    assert engine.stop() == 0
    reader = EventReader(broker, "test")
    reader.ack([event for event in reader.read(count=500, block_ms=1) if isinstance(event, Event)])
    broker.reset_queue(QUEUE)


def test_each_claim_and_settlement_is_a_line_with_the_ids_of_its_task_and_without_its_payload(
    start: Start, broker: Broker
) -> None:
    done, failed = submit(broker), submit(broker, fail=True)
    engine = start()
    settled = {line["task_id"]: line for line in wait_for(engine, "task_settled", 2)}
    claimed = {line["task_id"]: line for line in lines(engine, "task_claimed")}
    for task in (done, failed):
        assert ids(claimed[task]) == ids(settled[task]) == (f"trace-of-{task}", task, task, 1)
        assert claimed[task]["engine_id"] == settled[task]["engine_id"] != ""
    assert settled[done]["outcome"] == "completed"
    assert [settled[failed][name] for name in ("outcome", "cause", "error_type")] == ["failed", "error", "ValueError"]
    end(engine, broker)
    assert SECRET not in engine.output


def test_what_an_author_logs_has_the_ids_of_the_task_that_runs(start: Start, broker: Broker) -> None:
    engine = start()
    tasks = {submit(broker), submit(broker)}
    wait_for(engine, "task_settled", 2)
    [loaded] = lines(engine, "loaded 2 models")
    assert (loaded["logger"], loaded["level"], "task_id" in loaded) == ("author", "info", False)
    decoding = lines(engine, "decoding\nthe input")
    assert {line["task_id"] for line in decoding} == tasks
    assert {(line["level"], line["seconds"]) for line in decoding} == {("warning", 3)}
    end(engine, broker)


def test_coroutines_on_one_loop_log_each_its_own_task(start: Start, broker: Broker) -> None:
    tasks = [submit(broker), submit(broker)]
    engine = start(ASYNC)
    wait_for(engine, "task_settled", 2)
    assert sorted(line["task_id"] for line in lines(engine, "decoding")) == sorted(tasks)
    end(engine, broker)


def test_an_engine_that_gets_a_dead_engines_task_logs_a_stale_claim_with_the_delivery_count(
    start: Start, broker: Broker
) -> None:
    task = submit(broker)
    dead = Consumer(broker, "node.logged.dead.boot", [QUEUE])
    dead.open()
    assert dead.claim()
    broker.registry.condemn(broker.registry.beat_counters()[dead.engine_id], Cause.ENGINE_LOST)
    engine = start()
    [stale] = wait_for(engine, "claimed_stale_task", 1)
    assert ids(stale) == (f"trace-of-{task}", task, task, 1)
    assert stale["delivery_count"] == 2
    assert lines(engine, "task_claimed") == []
    wait_for(engine, "task_settled", 1)
    broker.registry.forget([dead.engine_id])
    end(engine, broker)


def test_in_development_a_line_is_readable_and_stays_one_line(start: Start, broker: Broker) -> None:
    task = submit(broker)
    engine = start(DALSTON_DEV="1")
    engine.wait_for("task_settled ")
    [claimed] = [text for text in engine.output.splitlines() if "task_claimed" in text]
    assert "[info     ] task_claimed" in claimed and f"task_id={task}" in claimed and "queue=logged" in claimed
    end(engine, broker)


def test_a_level_that_does_not_exist_is_refused_by_name(start: Start) -> None:
    engine = start(DALSTON_LOG_LEVEL="LOUD")
    assert engine.wait() == 78
    [refused] = [json.loads(line) for line in engine.output.splitlines()]
    assert refused["event"] == "DALSTON_LOG_LEVEL is 'LOUD'. Expected one of DEBUG, INFO, WARNING, ERROR."
