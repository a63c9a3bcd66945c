"""node.yaml: the plan, and refusals that name the file and the field."""

import socket
from pathlib import Path

import pytest

from dalston_queue.broker.protocol.keys import default_node_name
from engines.sdk.manifest import ManifestError
from supervisor.config import read_plan
from supervisor.management.commands.runsupervisor import BUSY_EXIT
from tests.supervisor.node import Node


def make(folder: Path, *engines: str) -> None:
    for name in engines:
        (folder / "engines" / name).mkdir(parents=True)
        (folder / "engines" / name / "engine.yaml").write_text(f"id: {name}\nstage: work\ncommand: [x]\n")


def test_without_a_file_every_engine_runs_once(tmp_path: Path) -> None:
    make(tmp_path, "one", "two")
    plan = read_plan(None, engines=(str(tmp_path / "engines"),))
    assert {engine: plan.replicas(engine) for engine in plan.manifests} == {"one": 1, "two": 1}
    assert plan.config.node == default_node_name()


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    make(tmp_path, "one")
    file = tmp_path / "node.yaml"
    file.write_text("node: a\nreplicas: {one: 3}\n")
    assert read_plan(file).config.node == "a"
    assert read_plan(file, node="b").config.node == "b"
    assert read_plan(file).replicas("one") == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("replicas: {missing: 1}", "field replicas.missing: no engine has this id"),
        ("replicas: {one: -1}", "field replicas[...]: expected `int` >= 0"),
        ("node: a b", "field node: 'a b' must match"),
        ("cloud: moon", "field cloud: 'moon' must be aws, gcp, azure or none"),
        ("http: here", "field http: 'here' must be host:port"),
        ("http: 127.0.0.1:99999", "field http: '127.0.0.1:99999' must be host:port"),
        ("logs: {max_mib: 0}", "field logs.max_mib: expected `int` >= 1"),
        ("engines: [nowhere]", "nowhere: no such folder of engines"),
    ],
)
def test_a_refusal_names_the_field(tmp_path: Path, text: str, why: str) -> None:
    make(tmp_path, "one")
    file = tmp_path / "node.yaml"
    file.write_text(text)
    with pytest.raises(ManifestError) as refused:
        read_plan(file)
    assert why in str(refused.value)


def test_builtin_engines_are_found_wherever_dalston_is_installed(tmp_path: Path) -> None:
    make(tmp_path, "one")
    file = tmp_path / "node.yaml"
    file.write_text("engines: [builtin/demo, engines]\n")
    assert set(read_plan(file).manifests) == {"demo", "one"}
    file.write_text("engines: [builtin]\n")
    assert {"demo", "transcribe"} <= set(read_plan(file).manifests)


def test_two_engines_of_one_id_are_refused(tmp_path: Path) -> None:
    make(tmp_path, "one", "two")
    (tmp_path / "engines" / "two" / "engine.yaml").write_text("id: one\nstage: work\ncommand: [x]\n")
    with pytest.raises(ManifestError, match="is also the id of the engine in"):
        read_plan(None, engines=(str(tmp_path / "engines"),))


def test_a_taken_http_port_is_named(node: Node) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        node.config["http"] = taken
        process = node.start()
        assert process.wait() == BUSY_EXIT
    assert f"field http: {taken} can't be used (Address already in use)" in process.output
    assert "Traceback" not in process.output
