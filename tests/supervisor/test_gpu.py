"""GPUs, through the real nvidia-ml-py on a stub of the library: inventory, hung drivers, admission, Xids."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.sdk.manifest import Gpu
from supervisor.gpu.monitor import GpuMonitor
from supervisor.gpu.reading import Device, Reading, Xid
from supervisor.policy import gpu_health
from supervisor.policy.admission import admit
from supervisor.policy.gpu_health import Health, Standing
from tests.supervisor.conftest import NvmlStub
from tests.support import WAIT_TIMEOUT_S, wait_until

ONE = Reading(devices=(Device("GPU-a", 0, "x", 16000, 1000),))
TWO = Reading(devices=(Device("GPU-a", 0, "x", 16000, 9000), Device("GPU-b", 1, "x", 16000, 1000)))


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


def test_the_probe_tells_memory_processes_and_gauges(nvml: NvmlStub, probe: Probe) -> None:
    nvml.say("gpu GPU-a 16000 500", "gpu GPU-b 8000 0", "process 0 4711 300")
    probe.close()
    probe.start()
    reading = probe.wait("a reading")
    assert reading.problem == ""
    first, second = reading.devices
    assert (first.uuid, first.total_mib, first.used_mib, first.processes) == ("GPU-a", 16000, 500, {4711: 300})
    assert (first.utilisation, first.temperature, first.power_w) == (42, 55, 123.0)
    assert second.uuid == "GPU-b"


def test_xids_are_told_once(nvml: NvmlStub) -> None:
    nvml.say("gpu GPU-a 16000 500", "xid 0 79 1")
    probe = Probe(nvml.env)
    assert probe.wait("the first reading").xids == (Xid("GPU-a", 79),)
    assert probe.wait("the second reading").xids == ()
    nvml.say("gpu GPU-a 16000 500", "xid 0 79 1", "xid 0 13 2")
    assert wait_until(lambda: [xid for reading in probe.next() for xid in reading.xids]) == [Xid("GPU-a", 13)]
    probe.close()


def test_a_hung_driver_is_noticed_and_the_probe_comes_back_when_it_answers(nvml: NvmlStub) -> None:
    nvml.say("gpu GPU-a 16000 500")
    probe = Probe(nvml.env)
    probe.wait("a reading")
    probe.monitor.deadline = 0.5
    nvml.say("hang")
    wait_until(lambda: (probe.next(), probe.monitor.child is None)[1], what="the hung probe's end")
    assert probe.monitor.reading is not None
    assert "did not answer" in probe.monitor.reading.problem
    nvml.say("gpu GPU-a 16000 700")
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
def test_what_is_wrong_with_the_driver_is_said_in_words(nvml: NvmlStub, state: str, problem: str) -> None:
    nvml.say(state)
    probe = Probe(nvml.env)
    assert problem in probe.wait("a reading").problem
    probe.close()


def test_no_library_is_a_normal_case(tmp_path: Path) -> None:
    probe = Probe({"LD_LIBRARY_PATH": str(tmp_path)})
    assert "no NVIDIA library" in probe.wait("a reading").problem
    wait_until(lambda: (probe.next(), probe.monitor.child is None)[1], what="its end")


def test_admission_takes_the_larger_of_promised_and_used_and_leaves_headroom() -> None:
    need = Gpu(vram_mib=6000)
    assert admit(need, ONE, reserved={}, headroom=500).gpus == ("GPU-a",)
    assert admit(need, ONE, reserved={"GPU-a": 9500}, headroom=500).gpus == ("GPU-a",)
    refused = admit(need, ONE, reserved={"GPU-a": 9501}, headroom=500)
    assert refused.gpus == ()
    assert refused.why_not == (
        "needs 1 GPU with 6000 MiB free: GPU 0: 9501 of 16000 MiB are taken and 500 MiB stay free"
    )
    used = Reading(devices=(Device("GPU-a", 0, "x", 16000, 9501),))
    assert not admit(need, used, reserved={}, headroom=500).gpus


def test_admission_prefers_the_emptiest_gpu_and_knows_what_is_closed_or_not_allowed() -> None:
    need = Gpu(vram_mib=4000)
    assert admit(need, TWO, reserved={}, headroom=0).gpus == ("GPU-b",)
    assert admit(need, TWO, reserved={}, headroom=0, allowed=["GPU-a"]).gpus == ("GPU-a",)
    refused = admit(need, TWO, reserved={}, headroom=0, allowed=["GPU-b"], closed={"GPU-b": "quarantined after Xid 79"})
    assert "GPU 1: quarantined after Xid 79" in refused.why_not
    assert admit(Gpu(count=2, vram_mib=4000), TWO, reserved={}, headroom=0).gpus == ("GPU-b", "GPU-a")


def test_an_engine_without_a_figure_wants_the_gpu_for_itself() -> None:
    assert admit(Gpu(), ONE, reserved={}, headroom=0).gpus == ("GPU-a",)
    assert not admit(Gpu(), ONE, reserved={"GPU-a": 1}, headroom=0).gpus


def test_a_cpu_engine_needs_no_gpu_and_no_reading() -> None:
    assert admit(None, None, reserved={}, headroom=0).why_not == ""
    assert "no library" in admit(Gpu(), Reading(problem="no library"), reserved={}, headroom=0).why_not


@pytest.mark.parametrize("number", [13, 31, 43, 45])
def test_an_application_xid_restarts_the_engine_and_leaves_the_gpu_in_use(number: int) -> None:
    response = gpu_health.on_xid(Health(), number, now=0.0)
    assert response.restart_engines
    assert not response.evict_engines
    assert response.health.standing is Standing.HEALTHY


@pytest.mark.parametrize("number", [48, 79, 95, 119])
def test_a_gpu_xid_quarantines_and_leads_back_over_probation(number: int) -> None:
    response = gpu_health.on_xid(Health(), number, now=0.0)
    assert response.evict_engines
    health = response.health
    assert gpu_health.on_time(health, 599.0).standing is Standing.QUARANTINED
    health = gpu_health.on_time(health, 600.0)
    assert health.standing is Standing.PROBATION
    assert gpu_health.on_time(health, 1200.0).standing is Standing.HEALTHY
    again = gpu_health.on_xid(health, number, now=700.0).health
    assert again.until == 700.0 + 1200.0


def test_an_admin_can_release_a_gpu_before_its_time() -> None:
    health = gpu_health.on_xid(Health(), 79, now=0.0).health
    assert gpu_health.released(health, 10.0).standing is Standing.PROBATION
