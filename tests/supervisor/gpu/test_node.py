"""GPUs of a whole node, on the stub library: admission, quarantine, freed memory, gauges."""

import time
import urllib.error
import urllib.request
from collections.abc import Callable

from dalston_queue.broker.protocol.types import EngineState
from dalston_queue.metrics.nodes import GPU
from tests.supervisor.conftest import NvmlStub
from tests.supervisor.node import Node, kill
from tests.support import WAIT_TIMEOUT_S, reserve_port, wait_until

GPU_A = "gpu GPU-a 16000 100"


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=WAIT_TIMEOUT_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_engines_get_gpus_wait_for_them_and_lose_them_in_a_quarantine(
    make_node: Callable[..., Node], nvml: NvmlStub
) -> None:
    nvml.set(GPU_A)
    node = make_node(**nvml.env)
    port = reserve_port()
    node.config["gpu_poll"] = 0.3
    node.config["http"] = f"127.0.0.1:{port}"
    node.engine("big", replicas=2, gpu={"count": 1, "vram_mib": 10000}, stop_grace=1)
    node.engine("cpu")
    process = node.start()
    node.wait_state(EngineState.READY, name="cpu")
    [placed] = node.wait_state(EngineState.READY, name="big")
    assert placed.info["gpus"] == ["GPU-a"]
    [waiting] = node.wait_state(EngineState.PENDING, name="big")
    assert "10000 of 16000 MiB are taken" in waiting.info["why"]

    status, gauges = get(f"http://127.0.0.1:{port}/metrics")
    assert status == 200
    assert 'DCGM_FI_DEV_FB_TOTAL{UUID="GPU-a",gpu="0",modelName="Stub GPU"} 16000.0' in gauges
    for family in GPU.values():
        assert f'\n{family.metric.name}{{UUID="GPU-a",gpu="0",modelName="Stub GPU"}} ' in gauges
    assert 'dalston_node_engines{state="ready"} 2.0' in gauges

    # A dead process that still holds memory keeps the slot closed; so the waiting one gets no place either.
    nvml.set(GPU_A, f"process 0 {placed.info['pid']} 10000")
    kill(placed.info["pid"])
    node.wait_state(EngineState.RECLAIMING, name="big")
    held = f"dead process {placed.info['pid']} still holds 10000 MiB"
    wait_until(lambda: any(held in engine.info["why"] for engine in node.engines("big")), what=held)
    nvml.set(GPU_A)
    node.wait_state(EngineState.READY, name="big")

    nvml.set(GPU_A, "xid 0 79 1")
    pending = node.wait_state(EngineState.PENDING, 2, name="big")
    wait_until(lambda: all("quarantined after Xid 79" in e.info["why"] for e in node.engines("big")), what="the reason")
    assert len(pending) == 2
    [gpu] = node.broker.registry.nodes()[0].report.gpus.devices
    assert (gpu.standing, gpu.why, gpu.last_xid) == ("quarantined", "quarantined after Xid 79", 79)
    assert gpu.until_ms > time.time() * 1000
    assert (gpu.total_mib, gpu.used_mib) == (16000, 100)
    node.wait_state(EngineState.READY, name="cpu")
    assert process.running()


def test_a_hung_driver_stops_no_heartbeat_and_no_cpu_engine(make_node: Callable[..., Node], nvml: NvmlStub) -> None:
    nvml.set("hang")
    node = make_node(**nvml.env)
    node.engine("cpu")
    node.engine("big", gpu={"vram_mib": 1000})
    node.start()
    node.wait_state(EngineState.READY, name="cpu")
    [big] = node.wait_state(EngineState.PENDING, name="big")
    assert "waiting for the first reading" in big.info["why"]
    [beat] = [info.beat for info in node.broker.registry.nodes()]
    wait_until(lambda: node.broker.registry.nodes()[0].beat > beat + 2, what="heartbeats go on")
    assert node.result(node.submit("ready"))
