"""The pages of nodes: nodes, engines and GPUs, commands to a node, its log."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.utils import timezone

from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.commands import CommandState, Reply
from dalston_queue.broker.nodes.logs import LogLine
from dalston_queue.broker.nodes.registry import EngineBeat, NodeInfo
from dalston_queue.broker.protocol.types import EngineState, NodeState
from dalston_queue.dashboard.nodes.logs import LogFeed, shown
from dalston_queue.dashboard.nodes.render import node_fragments
from dalston_queue.jobs.submit.spec import single_task
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import Node, OperatorAction, Project

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys]
GPU = {
    "uuid": "GPU-1", "name": "L4", "total_mib": 24576, "used_mib": 6144, "utilisation": 63, "temperature": 71,
    "power_w": 60.4, "standing": "quarantined", "why": "Xid 79", "last_xid": 79,
}  # fmt: skip


def beat(broker: Broker, state: NodeState = NodeState.ACTIVE, slots: int = 2, **report: Any) -> None:
    now = int(time.time() * 1000)
    engines = [
        EngineBeat(
            engine_id=f"node-a.demo.{slot}.abc",
            state=EngineState.READY,
            queues=("echo",),
            capacity=4,
            info={
                "slot": f"demo.{slot}",
                "engine": "demo",
                "pid": 1,
                "exits": 3,
                "last_exits": [{"engine_id": f"old.{slot}", "at_ms": now, "kind": "signal", "text": "signal 9 <b>"}],
                **report,
            },
        )
        for slot in range(slots)
    ]
    info = {"labels": {"zone": "b"}, "gpus": {"devices": [GPU]}}
    broker.registry.beat_node("node-a", state, engines, info)


def press(client: Client, **form: str) -> str:
    """The message on the page afterwards."""
    answer = client.post("/nodes/node-a/command/", {"command_id": "one", **form})
    assert answer.status_code == 302, answer.content
    return str(list(get_messages(answer.wsgi_request))[-1])


def text(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_without_a_node_the_page_says_how_one_joins(viewer: Client, broker: Broker) -> None:
    page = text(viewer, "/nodes/")
    assert "manage.py runsupervisor" in page
    assert "<h1>No nodes, no engines.</h1>" in page


def test_it_shows_nodes_engines_and_gpus(viewer: Client, broker: Broker) -> None:
    beat(broker)
    page = text(viewer, "/nodes/")
    assert 'href="/nodes/node-a/"' in page
    assert "2 of 2 engines ready" in page
    assert "6.0 of 24 GiB" in page
    assert "GPU 0 of node-a is quarantined: Xid 79." in page


def test_a_node_shows_its_exits_with_their_reason_escaped(viewer: Client, broker: Broker) -> None:
    beat(broker)
    page = text(viewer, "/nodes/node-a/")
    assert "signal 9 &lt;b&gt;" in page
    assert "zone: b" in page
    assert "63 % busy" in page


def test_engines_without_a_supervisor_have_no_buttons(operator: Client, broker: Broker) -> None:
    report = {"alone": True, "engine": "demo"}
    beat_alone = EngineBeat(engine_id="box.demo.0.x", state=EngineState.READY, queues=("echo",), info=report)
    broker.registry.beat_engine(beat_alone, "box")
    assert "; no supervisor" in text(operator, "/nodes/")
    page = text(operator, "/nodes/box/")
    assert "/nodes/box/command/" not in page
    assert "No engine of this node has a log." in page
    assert 'href="/nodes/box/"' in text(operator, "/"), "the overview leads there, too"
    assert "would answer" in press_on(operator, "box")


def press_on(client: Client, node: str) -> str:
    answer = client.post(f"/nodes/{node}/command/", {"command": "drain", "reason": "x", "command_id": "one"})
    return str(list(get_messages(answer.wsgi_request))[-1])


def test_a_viewer_sees_no_button_and_is_refused(viewer: Client, broker: Broker) -> None:
    beat(broker)
    assert "Drain" not in text(viewer, "/nodes/node-a/")
    for path in ("command", "forget"):
        assert viewer.post(f"/nodes/node-a/{path}/", {"command": "drain", "reason": "x"}).status_code == 403
    assert broker.node("node-a").recent() == []


def test_a_command_is_sent_audited_and_shown_until_its_end(operator: Client, broker: Broker) -> None:
    beat(broker)
    assert "Requested" in press(operator, command="drain", reason="new driver")
    channel = broker.node("node-a")
    [status] = channel.recent()
    assert (status.name, status.arguments, status.actor) == ("drain", {"reason": "new driver"}, "user olga")
    row = OperatorAction.objects.get()
    assert (row.action, row.target, row.reason) == ("node.drain", "node-a", "new driver")
    assert '<span class="chip wait">requested' in text(operator, "/nodes/node-a/")
    channel.reply(Reply(command_id="one", state=CommandState.TAKEN, message="draining"))
    assert '<span class="chip busy">taken' in text(operator, "/nodes/node-a/")
    channel.reply(Reply(command_id="one", state=CommandState.DONE, message="<i>drained</i>"))
    page = text(operator, "/nodes/node-a/")
    assert '<span class="chip ok">done' in page
    assert "&lt;i&gt;drained" in page


def test_an_engine_has_its_own_panel_like_a_worker_over_http(operator: Client, viewer: Client, broker: Broker) -> None:
    beat(broker)
    assert 'href="?worker=node-a.demo.1.abc#actions"' in text(operator, "/nodes/node-a/")
    panel = text(operator, "/nodes/node-a/?worker=node-a.demo.1.abc").split('id="actions"')[1].split("</section>")[0]
    assert 'data-state="supervised"' in panel and "of echo" in panel
    assert '<input type="hidden" name="engine" value="demo.1">' in panel and 'value="restart"' in panel
    assert 'value="restart"' not in text(viewer, "/nodes/node-a/?worker=node-a.demo.1.abc")
    assert press(operator, command="restart", engine="demo.1", reason="leaks memory").startswith("Requested: restart.")
    for gone in ("node-a.demo.9.abc", "x" * 200):
        page = text(operator, f"/nodes/node-a/?worker={gone}")
        assert "has left, or was judged dead" in page
        assert "<form" not in page.split('id="actions"')[1].split("</section>")[0]


def test_the_same_form_sent_twice_is_one_command(operator: Client, broker: Broker) -> None:
    beat(broker)
    press(operator, command="drain", reason="new driver")
    assert "requested already" in press(operator, command="drain", reason="new driver")
    assert len(broker.node("node-a").recent()) == 1
    assert OperatorAction.objects.count() == 1


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"command": "drain"}, "a reason is needed"),
        ({"command": "restart", "engine": "demo"}, "a reason is needed"),
        ({"command": "scale", "engine": "demo", "replicas": "1"}, "a reason is needed"),
        ({"command": "scale", "engine": "demo", "replicas": "1e3", "reason": "x"}, "a number from 0 to 256"),
        ({"command": "scale", "engine": "demo", "replicas": "257", "reason": "x"}, "a number from 0 to 256"),
        ({"command": "scale", "engine": "demo", "replicas": "1" * 5000, "reason": "x"}, "a number from 0 to 256"),
        ({"command": "restart", "engine": "nothing", "reason": "x"}, "no engine 'nothing'"),
        ({"command": "release_gpu", "gpu": "GPU-2"}, "no such GPU"),
        ({"command": "format_disk", "reason": "x"}, "no command for a node"),
        ({"command": "drain", "reason": "x", "command_id": "a b"}, "no command for a node"),
    ],
)
def test_an_invalid_form_is_refused_with_a_message(
    operator: Client, broker: Broker, form: dict[str, str], message: str
) -> None:
    beat(broker)
    assert message in press(operator, **form)
    assert broker.node("node-a").recent() == []
    assert not OperatorAction.objects.exists()


def test_more_processes_need_no_reason_and_a_rolling_restart_takes_the_whole_kind(
    operator: Client, broker: Broker
) -> None:
    beat(broker)
    press(operator, command="scale", engine="demo", replicas="3")
    press(operator, command="rolling_restart", engine="demo.1", reason="leak", command_id="two")
    rolling, scale = broker.node("node-a").recent()
    assert scale.arguments == {"engine": "demo", "replicas": 3}
    assert rolling.arguments == {"engine": "demo", "reason": "leak"}


def test_a_dead_node_shows_its_lost_tasks_and_can_be_forgotten(operator: Client, broker: Broker) -> None:
    task = submit(single_task("echo"), project=Project.objects.create(name="alpha")).task_ids[0]
    beat(broker, slots=1, tasks=[{"task_id": str(task), "queue": "echo"}, {"task_id": "no id", "queue": "echo"}])
    assert "Nothing was changed" in forget(operator)
    broker.registry.condemn(broker.registry.beat_counters()["node-a.demo.0.abc"])
    broker.registry.condemn_node(NodeInfo(node_id="node-a", state=NodeState.ACTIVE))
    page = text(operator, "/nodes/node-a/")
    assert f'id="lost-{task}"' in page
    assert "Forget node" in page
    assert "would answer" in press(operator, command="drain", reason="x")
    assert "is forgotten" in forget(operator)
    assert not broker.registry.nodes()
    assert not broker.registry.engines()
    assert OperatorAction.objects.get().action == "node.forget"


def forget(client: Client) -> str:
    answer = client.post("/nodes/node-a/forget/", {"reason": "sold"})
    return str(list(get_messages(answer.wsgi_request))[-1])


def test_a_node_that_only_postgres_remembers_is_shown_as_gone(viewer: Client, broker: Broker) -> None:
    now = timezone.now()
    Node.objects.create(id="old", state="active", first_seen_at=now, last_seen_at=now)
    assert "Last seen" in text(viewer, "/nodes/old/")
    assert viewer.get("/nodes/never/").status_code == 404


def test_a_page_whose_node_was_forgotten_says_so(broker: Broker, db: None) -> None:
    html = "".join(fragment.html for fragment in node_fragments("sold", {}, may_operate=False))
    assert 'data-state="gone"' in html
    assert "Last seen" not in html


def test_a_log_that_fails_once_says_so_and_goes_on() -> None:
    class FailsOnce(LogFeed):
        failed = False

        def _read(self) -> list[LogLine]:
            if self.failed:
                return [LogLine(1, 0, "again")]
            self.failed = True
            raise KeyError("a bug")

    feed, seen, messages = FailsOnce("node-a", "demo.0"), 0, []
    for _ in range(2):
        feed.poll()
        fresh, seen = feed.since(seen)
        messages += fresh
    problem, log_line = messages
    assert "could not be read" in problem
    assert "again" in log_line


def test_a_log_line_is_shown_without_escape_sequences() -> None:
    line = LogLine(1, 1_700_000_000_000, "\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07\x08 tab\t<b>")
    assert shown(line) == "22:13:20 red link tab\t<b>"
