"""Admission of engines to GPUs: memory, headroom, closed and allowed GPUs."""

from engines.sdk.manifest import Gpu
from supervisor.gpu.reading import Device, Reading
from supervisor.policy.admission import admit

ONE = Reading(devices=(Device("GPU-a", 0, "x", 16000, 1000),))
TWO = Reading(devices=(Device("GPU-a", 0, "x", 16000, 9000), Device("GPU-b", 1, "x", 16000, 1000)))


def test_the_larger_of_reserved_and_used_counts_and_the_headroom_stays_free() -> None:
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


def test_the_emptiest_gpu_is_used_that_is_neither_closed_nor_forbidden() -> None:
    need = Gpu(vram_mib=4000)
    assert admit(need, TWO, reserved={}, headroom=0).gpus == ("GPU-b",)
    assert admit(need, TWO, reserved={}, headroom=0, allowed=["GPU-a"]).gpus == ("GPU-a",)
    refused = admit(need, TWO, reserved={}, headroom=0, allowed=["GPU-b"], closed={"GPU-b": "quarantined after Xid 79"})
    assert "GPU 1: quarantined after Xid 79" in refused.why_not
    assert admit(Gpu(count=2, vram_mib=4000), TWO, reserved={}, headroom=0).gpus == ("GPU-b", "GPU-a")


def test_an_engine_without_vram_mib_needs_a_whole_gpu() -> None:
    assert admit(Gpu(), ONE, reserved={}, headroom=0).gpus == ("GPU-a",)
    assert not admit(Gpu(), ONE, reserved={"GPU-a": 1}, headroom=0).gpus


def test_a_cpu_engine_needs_no_gpu_and_no_reading() -> None:
    assert admit(None, None, reserved={}, headroom=0).why_not == ""
    assert "no library" in admit(Gpu(), Reading(problem="no library"), reserved={}, headroom=0).why_not
