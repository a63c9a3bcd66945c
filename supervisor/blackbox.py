"""The black box of a dead engine: what goes with its tasks, and into the dead letter of one that kills engines."""

from __future__ import annotations

from collections.abc import Iterable

from .exits import Exit
from .gpu.reading import Reading

LONGEST_LINE = 500
STACK_MARKS = ("Fatal Python error", "Current thread", "Thread 0x", "  File ")


def evidence(ended: Exit, tail: list[str], samples: Iterable[Reading], gpus: tuple[str, ...]) -> dict[str, object]:
    """Exit code or signal, the last log lines, the stack dump in them, and the GPU's figures of the last minute."""
    lines = [line[:LONGEST_LINE] for line in tail]
    return {
        "kind": str(ended.kind),
        "exit_code": ended.code,
        "signal": ended.signal,
        "text": ended.text,
        "log": lines,
        "stack": [line for line in lines if any(mark in line for mark in STACK_MARKS)],
        "gpu": [
            {
                "uuid": device.uuid,
                "used_mib": device.used_mib,
                "utilisation": device.utilisation,
                "°C": device.temperature,
            }
            for reading in samples
            for device in reading.devices
            if device.uuid in gpus
        ],
    }
