"""The GPU probe and its monitor, through the real nvidia-ml-py on a stub of the library."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.gpu.monitor import GpuMonitor
from supervisor.gpu.reading import Reading, Xid
from tests.supervisor.conftest import NvmlStub
from tests.support import WAIT_TIMEOUT_S, wait_until


class Probe:
    """A monitor with its child, as the main loop drives it."""

    def __init__(self, env: dict[str, str]) -> None:
        self.monitor = GpuMonitor(period=0.05, deadline=WAIT_TIMEOUT_S, retry_after=0.0)
        self.env = {**os.environ, **env}
        self.start()

    def start(self) -> None:
        self.monitor.start(time.monotonic(), self.env)

    def next(self) -> list[Reading]:
        now = time.monotonic()
        readings = self.monitor.read(now)
        self.monitor.tick(now)
        if self.monitor.child and self.monitor.child.popen.poll() is not None:
            self.monitor.exited(now)
        return readings

    def wait(self, what: str) -> Reading:
        reading = wait_until(self.next, what=what)[-1]
        assert reading is not None
        return reading

    def close(self) -> None:
        child = self.monitor.child
        if child:
            self.monitor.stop()
            child.popen.wait()
            self.monitor.exited(time.monotonic())


@pytest.fixture
def probe(nvml: NvmlStub) -> Iterator[Probe]:
    probe = Probe(nvml.env)
    yield probe
    probe.close()


def test_a_reading_has_memory_processes_and_gauges(nvml: NvmlStub, probe: Probe) -> None:
    nvml.set("gpu GPU-a 16000 500", "gpu GPU-b 8000 0", "process 0 4711 300")
    probe.close()
    probe.start()
    reading = probe.wait("a reading")
    assert reading.problem == ""
    first, second = reading.devices
    assert (first.uuid, first.total_mib, first.used_mib, first.processes) == ("GPU-a", 16000, 500, {4711: 300})
    assert (first.utilisation, first.temperature, first.power_w) == (42, 55, 123.0)
    assert second.uuid == "GPU-b"


def test_xids_are_reported_once(nvml: NvmlStub) -> None:
    nvml.set("gpu GPU-a 16000 500", "xid 0 79 1")
    probe = Probe(nvml.env)
    assert probe.wait("the first reading").xids == (Xid("GPU-a", 79),)
    assert probe.wait("the second reading").xids == ()
    nvml.set("gpu GPU-a 16000 500", "xid 0 79 1", "xid 0 13 2")
    assert wait_until(lambda: [xid for reading in probe.next() for xid in reading.xids]) == [Xid("GPU-a", 13)]
    probe.close()


def test_a_hung_driver_is_noticed_and_the_probe_comes_back_when_it_answers(nvml: NvmlStub) -> None:
    nvml.set("gpu GPU-a 16000 500")
    probe = Probe(nvml.env)
    probe.wait("a reading")
    probe.monitor.deadline = 0.5
    nvml.set("hang")
    wait_until(lambda: (probe.next(), probe.monitor.child is None)[1], what="the hung probe's end")
    assert probe.monitor.reading is not None
    assert "did not answer" in probe.monitor.reading.problem
    nvml.set("gpu GPU-a 16000 700")
    assert probe.monitor.startable(time.monotonic())
    probe.monitor.deadline = WAIT_TIMEOUT_S
    probe.start()
    assert probe.wait("a reading again").devices[0].used_mib == 700
    probe.close()


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ("init 18", "different versions"),
        ("init 9", "driver is not loaded"),
        ("init 999", "NVML does not start"),
        ("", "no GPU"),
    ],
)
def test_a_problem_of_the_driver_is_reported_as_a_sentence(nvml: NvmlStub, state: str, problem: str) -> None:
    nvml.set(state)
    probe = Probe(nvml.env)
    assert problem in probe.wait("a reading").problem
    probe.close()


def test_no_library_is_a_normal_case(tmp_path: Path) -> None:
    probe = Probe({"LD_LIBRARY_PATH": str(tmp_path)})
    assert "no NVIDIA library" in probe.wait("a reading").problem
    wait_until(lambda: (probe.next(), probe.monitor.child is None)[1], what="its end")
