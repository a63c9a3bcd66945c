"""Workers over HTTP on their page: operators drain and resume them, viewers may not."""

from __future__ import annotations

import pytest
from django.contrib.messages import get_messages
from django.test import Client

from dalston_queue.broker import Broker
from dalston_queue.broker.engine.breaker import BreakerRules
from dalston_queue.broker.engine.remote import RemoteWorker
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.types import EngineState
from dalston_queue.dashboard.nodes.render import node_fragments
from dalston_queue.models import OperatorAction
from tests.support import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys]
WORKER = "http.box.0123456789abcdef"
PAGE = f"/nodes/http/?worker={WORKER}"


@pytest.fixture
def worker(broker: Broker) -> RemoteWorker:
    RemoteWorker.register(broker, EngineBeat(engine_id=WORKER, state=EngineState.READY, queues=("echo",), capacity=2))
    return found(broker)


def found(broker: Broker, rules: BreakerRules | None = None) -> RemoteWorker:
    worker = RemoteWorker.find(broker, WORKER, rules or BreakerRules())
    assert worker is not None
    return worker


def press(client: Client, verb: str, reason: str = "") -> str:
    """The message on the page afterwards."""
    answer = client.post(f"/nodes/http/workers/{WORKER}/{verb}/", {"reason": reason})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/nodes/http/")
    return str(list(get_messages(answer.wsgi_request))[-1])


def audited_actions() -> list[tuple[str, str, str, str]]:
    rows = OperatorAction.objects.order_by("id")
    return [(row.actor, row.action, row.target, row.reason) for row in rows]


def test_a_worker_is_drained_and_resumed_from_its_page(operator: Client, broker: Broker, worker: RemoteWorker) -> None:
    page = operator.get("/nodes/http/").content.decode()
    assert f'href="?worker={WORKER}#actions"' in page
    assert "accept no commands" not in page
    assert f'action="/nodes/http/workers/{WORKER}/drain/"' in operator.get(PAGE).content.decode()
    assert "gets no new task" in press(operator, "drain", "new disk")
    assert found(broker).should_drain
    page = operator.get(PAGE).content.decode()
    assert "user olga wants it to drain: new disk" in page
    assert '<div id="worker" class="pad" data-state="draining">' in page
    assert "Resume…" in page
    assert "gets tasks again" in press(operator, "resume")
    assert not found(broker).should_drain
    expected = [("worker.drain", "new disk"), ("worker.resume", "")]
    assert audited_actions() == [("user olga", action, WORKER, reason) for action, reason in expected]


def test_the_state_of_its_circuit_breaker_is_shown(viewer: Client, broker: Broker, worker: RemoteWorker) -> None:
    rules = BreakerRules(failures=2, open_s=0.5, trials=1)
    for _ in range(2):
        found(broker, rules).record(succeeded=False)

    def shown(breaker: str) -> bool:
        pages = [viewer.get(page).content.decode() for page in ("/nodes/", "/nodes/http/")]
        return all(f"breaker {breaker}" in page for page in pages)

    wait_until(lambda: shown("half-open"), what="the trial")
    [engine] = broker.registry.engines()
    assert engine.info["why"] == "2 tasks failed in a row: half-open, it may run one trial task"
    found(broker, rules).record(succeeded=False)
    wait_until(lambda: shown("open"), what="it is open again")
    wait_until(lambda: shown("half-open"), what="the second trial")
    found(broker, rules).record(succeeded=True)
    wait_until(lambda: "breaker" not in viewer.get("/nodes/http/").content.decode(), what="it is closed")


def test_a_viewer_sees_no_button_and_is_refused(viewer: Client, broker: Broker, worker: RemoteWorker) -> None:
    page = viewer.get(PAGE).content.decode()
    assert WORKER in page
    assert "Drain" not in page
    assert "/nodes/http/workers/" not in page
    for verb in ("drain", "resume"):
        assert viewer.post(f"/nodes/http/workers/{WORKER}/{verb}/", {"reason": "x"}).status_code == 403
    assert not found(broker).should_drain
    assert audited_actions() == []


def test_the_socket_gives_buttons_to_operators_only(worker: RemoteWorker) -> None:
    seen = {operates: "".join(each.html for each in node_fragments("http", {}, operates)) for operates in (True, False)}
    assert "Drain…" in seen[True]
    assert "Drain…" not in seen[False]


def test_a_drain_needs_a_reason_and_only_a_change_is_audited(
    operator: Client, broker: Broker, worker: RemoteWorker
) -> None:
    assert "a reason is needed" in press(operator, "drain", " ")
    assert "Nothing was changed" in press(operator, "resume")
    press(operator, "drain", "new disk")
    assert "already" in press(operator, "drain", "me too")
    assert [row[1] for row in audited_actions()] == ["worker.drain"]


def test_a_worker_that_left_or_died_cannot_be_drained(operator: Client, broker: Broker, worker: RemoteWorker) -> None:
    broker.registry.condemn(broker.registry.beat_counters()[WORKER])
    assert "judged dead" in press(operator, "drain", "x")
    assert "Drain…" not in operator.get("/nodes/http/").content.decode()
    assert "has left, or was judged dead" in operator.get(PAGE).content.decode()
    broker.registry.forget([WORKER])
    assert "has left" in press(operator, "drain", "x")
    assert audited_actions() == []


def test_an_invalid_worker_id_is_a_page_without_the_panel(operator: Client, worker: RemoteWorker) -> None:
    for wrong in ("", "a/b", "x" * 300, "../../admin"):
        page = operator.get(f"/nodes/http/?worker={wrong}")
        assert page.status_code == 200
        assert b"action-panel" not in page.content
    assert operator.get(f"/nodes/http/?worker={'x' * 200}").status_code == 200, "of an engine, never of a worker"
    assert operator.get(f"/nodes/http/workers/{WORKER}/drain/").status_code == 405
    assert operator.post(f"/nodes/http/workers/{WORKER}/explode/").status_code == 404
