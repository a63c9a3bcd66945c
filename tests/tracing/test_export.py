"""Spans are sent only if OTEL_* asks for it, and a collector delays nothing. Each case is a process of its own: the
SDK's state is that of a process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dalston_queue.tracing.export import problem_of
from tests.api.webhooks.receiver import Receiver, receiving
from tests.conftest import ROOT
from tests.tracing.collector import Collector, Span, below

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"

RECORD = f"""
import logging, sys, time
logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
from dalston_queue.tracing import export
export.configure("web")
def record(name, span, parent, **more):
    export.record(name, "{TRACE}", span, parent, (1, 2), **more)
"""


def run(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-c", RECORD + code], cwd=ROOT, env={**kept, **env}, capture_output=True, text=True, check=True
    )


def url(receiver: Receiver) -> str:
    return f"http://127.0.0.1:{receiver.port}"


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ({}, ""),
        ({ENDPOINT: "http://127.0.0.1:4318"}, None),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, None),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, None),
        ({ENDPOINT: "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"}, ""),
        ({ENDPOINT: "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"}, ""),
        ({ENDPOINT: "http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, None),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is 'zipkin', and only otlp and none are known here"),
        (
            {ENDPOINT: "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "the OTLP protocol is 'grpc', and only http/protobuf is known here",
        ),
    ],
)
def test_the_standard_variables_say_whether_spans_are_sent(env: dict[str, str], problem: str | None) -> None:
    assert problem_of(env) == problem


def test_without_them_nothing_is_imported_and_recording_does_nothing() -> None:
    code = "record('x', 1, 0); print(export.enabled(), any(name.startswith('opentelemetry') for name in sys.modules))"
    assert run(code).stdout == "False False\n"


def test_spans_arrive_with_their_own_ids_parents_and_reasons() -> None:
    code = "record('submit', 1, 0); record('run', 2, 1, failed='timeout', attributes={'attempt': 2, 'engine_id': ''})"
    with receiving() as receiver:
        run(code, OTEL_EXPORTER_OTLP_ENDPOINT=url(receiver))
        found = {span.name: span for span in Collector(receiver).spans_of(TRACE)}
    root, child = found["submit"], found["run"]
    assert (root.process, root.id, root.parent, root.failed) == ("web", "0" * 15 + "1", "", False)
    assert (child.parent, child.failed, child.about) == (root.id, True, {"dalston.attempt": 2, "error.type": "timeout"})


def test_an_authors_own_spans_are_below_the_run_and_go_to_the_same_collector() -> None:
    code = f"""
from opentelemetry import trace
export.offer()
with export.current("{TRACE}", 7):
    trace.get_tracer("author").start_span("decode").end()
record("run", 7, 0)
"""
    with receiving() as receiver:
        run(code, OTEL_EXPORTER_OTLP_ENDPOINT=url(receiver), OTEL_SERVICE_NAME="mine")
        spans = Collector(receiver).spans_of(TRACE)
    assert below(spans) == {"": ["mine run"], "mine run": ["mine decode"]}


def test_a_sampler_decides_by_the_trace_and_never_by_the_parent() -> None:
    spans: list[Span] = []
    with receiving() as receiver:
        for name, share in (("parentbased_traceidratio", "0"), ("always_off", ""), ("traceidratio", "1")):
            env = {"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": share}
            run(f"record('{name}', 1, 9)", OTEL_EXPORTER_OTLP_ENDPOINT=url(receiver), **env)
        spans = Collector(receiver).spans_of(TRACE)
    assert [span.name for span in spans] == ["traceidratio"]


@pytest.mark.parametrize(
    "env",
    [
        {"OTEL_TRACES_EXPORTER": "zipkin"},
        {ENDPOINT: "http://127.0.0.1:4318", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "some"},
        {ENDPOINT: "http://127.0.0.1:4318", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"},
    ],
)
def test_wrong_variables_are_one_warning_and_stop_nothing(env: dict[str, str]) -> None:
    done = run("record('x', 1, 0); print(export.enabled())", **env)
    assert done.stdout == "False\n"
    assert done.stderr.count("tracing traces are not sent: ") == 1


def test_without_the_extra_the_log_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "opentelemetry.py").write_text("raise ImportError")
    env = {ENDPOINT: "http://127.0.0.1:4318", "PYTHONPATH": str(tmp_path)}
    done = run("record('x', 1, 0); print(export.enabled())", **env)
    assert done.stdout == "False\n"
    assert "traces are not sent: the extra is not installed: pip install 'dalston[otel]'" in done.stderr


def test_a_collector_that_is_away_is_one_line_of_the_log() -> None:
    code = "\nfor number in range(1, 5000):\n    record('x', number, 0)\nexport.close()"
    with receiving() as receiver:
        gone = url(receiver)
    done = run(code, OTEL_EXPORTER_OTLP_ENDPOINT=gone, OTEL_EXPORTER_OTLP_TIMEOUT="1")
    assert done.stderr == "tracing the collector of traces does not take them: they are dropped meanwhile\n"


def test_a_collector_that_never_answers_does_not_hold_up_the_end_of_a_process() -> None:
    with receiving() as receiver:
        receiver.gate = threading.Event()
        run("record('x', 1, 0)", OTEL_EXPORTER_OTLP_ENDPOINT=url(receiver), OTEL_EXPORTER_OTLP_TIMEOUT="600")
        assert receiver.got
