"""What is in deploy/ and docs/operate/nodes.md is true: units verify, the manifest parses, every field is there."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dalston_queue.broker.protocol.types import EngineState
from supervisor.commands.handlers import COMMANDS
from supervisor.config import NodeConfig, read_plan

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "operate" / "nodes.md").read_text()
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze on this machine")
@pytest.mark.parametrize("unit", UNITS, ids=[unit.name for unit in UNITS])
def test_the_units_are_verified_by_systemd(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text().replace("/opt/dalston/current/bin", str(Path(sys.executable).parent))
    copy = tmp_path / unit.name.replace("@", "@demo")
    copy.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_lets_the_supervisor_do_its_work() -> None:
    text = (DEPLOY / "systemd" / "dalston-supervisor.service").read_text()
    for line in ("Type=notify", "WatchdogSec=60", "Delegate=yes", "OOMPolicy=continue", "KillMode=mixed"):
        assert line in text.splitlines()


def test_the_example_node_yaml_is_valid(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "node.yaml.example").read_text()
    file = tmp_path / "node.yaml"
    file.write_text(text)
    assert read_plan(file).config.node == "gpu-1"


def test_every_field_and_state_is_on_the_page() -> None:
    words = set(re.findall(r"[A-Za-z_]+", PAGE))
    assert words >= {field.name for field in msgspec.structs.fields(NodeConfig)}
    assert words >= {str(state) for state in EngineState if state is not EngineState.DEAD}
    assert words >= set(COMMANDS)
