"""Reload: a changed file changes its engine only, a broken one nothing."""

import signal

import yaml

from dalston_queue.broker.protocol.types import EngineState
from tests.supervisor.node import Node
from tests.support import wait_until


def pids(node: Node) -> dict[str, int]:
    return {engine.info["slot"]: engine.info["pid"] for engine in node.engines() if engine.state is EngineState.READY}


def test_reload_restarts_only_changed_engines(node: Node) -> None:
    node.engine("one")
    node.engine("two")
    process = node.start()
    node.ready(2)
    before = pids(node)
    node.engine("two", version="2")
    node.engine("three")
    (node.folder / "node.yaml").write_text(yaml.safe_dump(node.config))
    wait_until(lambda: len(pids(node)) == 3 and pids(node)["two.0"] != before["two.0"], what="the file change is seen")
    assert pids(node)["one.0"] == before["one.0"]
    changed = pids(node)
    manifest = node.engines_dir / "one" / "engine.yaml"
    good = manifest.read_text()
    manifest.write_text(good + "capacity: lots\n")
    process.send(signal.SIGHUP)
    process.wait_for("configuration not reloaded")
    assert "one/engine.yaml: field capacity: expected `int`, got `str`" in process.output
    assert pids(node) == changed
    manifest.write_text(good)
    (node.engines_dir / "three" / "engine.yaml").unlink()
    del node.config["replicas"]["three"]
    (node.folder / "node.yaml").write_text(yaml.safe_dump(node.config))
    process.send(signal.SIGHUP)
    wait_until(lambda: set(pids(node)) == {"one.0", "two.0"}, what="the removed engine goes")
    assert pids(node)["one.0"] == before["one.0"]
