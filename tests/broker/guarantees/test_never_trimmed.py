"""Work is never trimmed: MAXLEN and MINID drop unread entries, and leave ghosts behind."""

import re
from pathlib import Path

from dalston_queue.broker import Consumer, EventReader, connect
from dalston_queue.broker.connection.scripts import BROKER
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo
from dalston_queue.broker.protocol.types import Cause, NodeState, Priority
from tests.broker.conftest import BUDGETS, events_of, message
from tests.broker.servers import nodes

ERROR = ErrorInfo(message="test")
CAPPED = {
    "add_capped.lua": "log lines of a node",
    "append.py": "hints that jobs were created, which are polled as well",
}


def test_only_these_files_trim_a_stream() -> None:
    sources = [*BROKER.rglob("*.py"), *BROKER.rglob("*.lua")]
    trimming = {path.name for path in sources if re.search(r"MAXLEN|MINID|XTRIM", path.read_text())}
    assert trimming == CAPPED.keys()


def test_no_command_of_a_tasks_life_trims_a_lane(tmp_path: Path) -> None:
    """Also no command of a script: the server's MONITOR shows them all."""
    with nodes() as made:
        home, low = made.start(tmp_path / "home"), made.start(tmp_path / "low")
        with home.client.monitor() as at_home, low.client.monitor() as at_low:
            live(home.url, low.url)
            home.client.echo("the end")
            low.client.echo("the end")
            commands = []
            for monitor in (at_home, at_low):
                while (command := monitor.next_command()["command"]) != "ECHO the end":
                    commands.append(command.split(" "))
    work = [words for words in commands if ":stream:" in " ".join(words[1:2])]
    assert len([words for words in work if words[0] == "XADD"]) > 20, "what adds to a lane was seen"
    assert {"XADD", "XACK", "XDEL", "XCLAIM"} <= {words[0] for words in work}
    assert [words for words in work if words[0] == "XTRIM" or {"MAXLEN", "MINID"} & set(words[2:5])] == []


def live(home_url: str, low_url: str) -> None:
    """All that can happen to tasks: appended, replaced, also in another shard, removed, run, settled,
    released, reclaimed, requeued, exhausted and dead-lettered."""
    broker = connect(home_url, shards=f"*/low={low_url}")
    consumer, reader = Consumer(broker, "e", ["echo"], capacity=4), EventReader(broker, "o")
    consumer.open()
    broker.registry.beat_node("n", NodeState.ACTIVE, [])
    broker.logs("n").write("demo.0", [(1, "a line")])
    broker.publish_jobs_created(["j"])
    assert set(broker.append([message(f"{p}{n}", priority=p) for p in Priority for n in range(8)])) == {"added"}
    assert broker.append([message("low6", attempt=2)]) == ["added"]
    assert broker.remove("echo", "low7") == "removed"
    first, second, third, _ = consumer.claim()
    assert broker.append([message(second.task_id, attempt=2)]) == ["added"]
    assert broker.expire("echo", first.task_id, 1, ERROR) == "expired"
    assert broker.requeue("echo", third.task_id, 1, ERROR) == "returned"
    assert len(consumer.renew_all().lost) == 3
    shard = broker.home
    shard.command("XADD", shard.keys.stream("echo"), "*", "rub", "bish")
    for cause in (Cause.ENGINE_LOST, Cause.NODE_LOST):
        assert broker.reclaim("e", ["echo"], cause, **BUDGETS).moved == len(consumer.held)
        consumer.open()
        assert len(consumer.claim()) == 4 and len(consumer.release()) == 4 and len(consumer.claim()) == 4
    assert broker.reclaim("e", ["echo"], max_deliveries=1, max_losses=1).exhausted
    consumer.open()
    while claimed := consumer.claim():
        assert set(consumer.exchange([(c, Completed()) for c in claimed], free=0).settled) == {"ok"}
    (stats,) = broker.snapshot().queues
    assert (stats.waiting, stats.running, stats.counters["dead_lettered"]) == (0, 0, 1)
    events_of(reader)
    consumer.close()
    reader.close()
    broker.close()
