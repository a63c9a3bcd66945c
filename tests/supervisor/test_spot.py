"""Spot notices of three clouds, from a local fake of their metadata servers."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dalston_queue.broker.protocol.types import EngineState, EventKind, NodeState
from supervisor.events import SpotNotice
from supervisor.spot import SpotWatch
from tests.supervisor.node import Node
from tests.support import wait_until


class Metadata:
    """Answers what the test put there, and 404 for the rest, as the clouds do."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.headers: list[dict[str, str]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.headers.append(dict(self.headers))
                body = fake.answers.get(self.path.partition("?")[0])
                self.send_response(404 if body is None else 200)
                self.end_headers()
                self.wfile.write((body or "").encode())

            do_PUT = do_GET  # noqa: N815 (the base class's name)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    fake = Metadata()
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


def poll(metadata: Metadata, cloud: str, monkeypatch: pytest.MonkeyPatch) -> list[SpotNotice]:
    monkeypatch.setenv("DALSTON_METADATA_URL", metadata.url)
    notices: list[SpotNotice] = []
    watch = SpotWatch(cloud, notices.append)
    watch.poll()
    watch.poll()  # a notice is posted once
    return notices


def soon(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def announce(metadata: Metadata, seconds: float) -> None:
    """As AWS does."""
    at = soon(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata.answers["/latest/meta-data/spot/instance-action"] = json.dumps({"action": "terminate", "time": at})


def started_node(make_node: Callable[..., Node], metadata: Metadata) -> Node:
    node = make_node(DALSTON_METADATA_URL=metadata.url)
    node.config["cloud"] = "aws"
    node.engine(capacity=2, stop_grace=60)
    node.start()
    node.ready()
    return node


@pytest.mark.parametrize("cloud", ["aws", "gcp", "azure"])
def test_no_announcement_no_notice(metadata: Metadata, cloud: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert poll(metadata, cloud, monkeypatch) == []


def test_aws_says_when_and_a_rebalance_is_only_a_hint(metadata: Metadata, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata.answers["/latest/api/token"] = "secret"
    metadata.answers["/latest/meta-data/events/recommendations/rebalance"] = '{"noticeTime": "2026-01-01T00:00:00Z"}'
    [hint] = poll(metadata, "aws", monkeypatch)
    assert hint.seconds is None
    announce(metadata, 120)
    [notice] = poll(metadata, "aws", monkeypatch)
    assert notice.seconds == pytest.approx(120, abs=3)
    assert metadata.headers[-1]["X-Aws-Ec2-Metadata-Token".lower().title()] == "secret"


def test_gcp_gives_thirty_seconds(metadata: Metadata, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata.answers["/computeMetadata/v1/instance/preempted"] = "FALSE"
    assert poll(metadata, "gcp", monkeypatch) == []
    metadata.answers["/computeMetadata/v1/instance/preempted"] = "TRUE"
    [notice] = poll(metadata, "gcp", monkeypatch)
    assert notice.seconds == 30
    assert metadata.headers[-1]["Metadata-Flavor"] == "Google"


def test_azure_announces_a_preemption(metadata: Metadata, monkeypatch: pytest.MonkeyPatch) -> None:
    at = soon(30).strftime("%a, %d %b %Y %H:%M:%S GMT")
    events = {"Events": [{"EventType": "Reboot"}, {"EventType": "Preempt", "NotBefore": at}]}
    metadata.answers["/metadata/scheduledevents"] = json.dumps(events)
    [notice] = poll(metadata, "azure", monkeypatch)
    assert notice.seconds == pytest.approx(30, abs=3)


def test_a_metadata_server_that_is_not_there_is_no_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DALSTON_METADATA_URL", "http://127.0.0.1:1")
    notices: list[SpotNotice] = []
    SpotWatch("aws", notices.append).poll()
    assert notices == []


@pytest.mark.parametrize("cloud", ["aws", "azure"])
def test_an_unknown_answer_is_no_notice_and_does_not_end_the_watch(
    metadata: Metadata, cloud: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("/latest/meta-data/spot/instance-action", "/metadata/scheduledevents"):
        metadata.answers[path] = '["not", "what", "we", "know"]'
    assert poll(metadata, cloud, monkeypatch) == []


def test_a_notice_drains_the_node_within_its_time_and_releases_what_does_not_fit(
    make_node: Callable[..., Node], metadata: Metadata
) -> None:
    node = started_node(make_node, metadata)
    short, long = node.submit("slow", seconds=1), node.submit("slow", seconds=60)
    node.started(short)
    node.started(long)
    announce(metadata, 8)
    announced_at = time.monotonic()
    assert node.result(short)
    assert node.wait_event(long, EventKind.TASK_RELEASED).deliveries == 0
    node.wait_state(EngineState.STOPPED)
    assert time.monotonic() - announced_at < 14
    [info] = wait_until(lambda: [n for n in node.broker.registry.nodes() if n.state is NodeState.DRAINING])
    assert "AWS will terminate" in info.info["why"]


def test_a_notice_that_leaves_no_time_still_releases_everything_uncounted(
    make_node: Callable[..., Node], metadata: Metadata
) -> None:
    """Both TERMs of the ladder are due at once, and two pending TERMs reach the process as one."""
    node = started_node(make_node, metadata)
    held = [node.submit("slow", seconds=60), node.submit("slow", seconds=60)]
    for task in held:
        node.started(task)
    announce(metadata, 1)
    for task in held:
        assert node.wait_event(task, EventKind.TASK_RELEASED).deliveries == 0
