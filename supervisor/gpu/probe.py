"""The probe process: calls NVML and prints one JSON line per reading. A hung driver hangs this process and no other.

Run as `python -m supervisor.gpu.probe SECONDS`. A line on its stdin asks for a reading at once.
"""

from __future__ import annotations

import select
import sys
from typing import Any

import msgspec
import pynvml

from .reading import Device, Reading, Xid

PROBLEMS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA library (libnvidia-ml.so.1) on this node: no GPU",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "driver and library have different versions (an upgrade without a reboot): reboot the node"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: "no permission to talk to the NVIDIA driver",
}


def main(seconds: float) -> int:
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        write(Reading(problem=PROBLEMS.get(error.value, f"NVML does not start: {error}")))
        return 0
    events = subscribe(handles)
    while True:
        xids = collect(events)
        devices = tuple(read(index, handle) for index, handle in enumerate(handles))
        problem = "" if devices else "NVML works, but there is no GPU"
        write(Reading(devices, xids, driver=pynvml.nvmlSystemGetDriverVersion(), problem=problem))
        if select.select([sys.stdin], [], [], seconds)[0] and not sys.stdin.readline():
            return 0  # the supervisor is gone


def read(index: int, handle: Any) -> Device:
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    processes = optional(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) or []
    utilisation = optional(pynvml.nvmlDeviceGetUtilizationRates, handle)
    return Device(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        index=index,
        name=pynvml.nvmlDeviceGetName(handle),
        total_mib=memory.total >> 20,
        used_mib=memory.used >> 20,
        utilisation=utilisation.gpu if utilisation else 0,
        temperature=optional(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU) or 0,
        power_w=(optional(pynvml.nvmlDeviceGetPowerUsage, handle) or 0) / 1000,
        processes={process.pid: (process.usedGpuMemory or 0) >> 20 for process in processes},
    )


def optional(function: Any, *arguments: Any) -> Any:
    """None if this card does not support the call."""
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def subscribe(handles: list[Any]) -> Any:
    events = optional(pynvml.nvmlEventSetCreate)
    for handle in handles if events is not None else []:
        optional(pynvml.nvmlDeviceRegisterEvents, handle, pynvml.nvmlEventTypeXidCriticalError, events)
    return events


def collect(events: Any) -> tuple[Xid, ...]:
    found: list[Xid] = []
    while events is not None and len(found) < 100:
        event = optional(pynvml.nvmlEventSetWait, events, 0)
        if event is None:
            break
        found.append(Xid(optional(pynvml.nvmlDeviceGetUUID, event.device) or "unknown", int(event.eventData)))
    return tuple(found)


def write(reading: Reading) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(reading) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
