"""Why a process ended, by evidence only: a SIGKILL without any is "signal 9", never "OOM"."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from engines.sdk.manifest import CONFIG_EXIT

from ..gpu.reading import Reading

MAX_LINE_LENGTH = 500  # characters of a log line in the evidence
STACK_MARKS = ("Fatal Python error", "Current thread", "Thread 0x", "  File ")

_CUDA_OOM = re.compile(
    r"CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED"
    r"|torch\.(cuda\.)?OutOfMemoryError"
)


class ExitKind(StrEnum):
    STOPPED = "stopped"  # by the supervisor
    CONFIG = "config"  # exit 78: do not restart
    EXITED = "exited"  # a code of its own
    SIGNAL = "signal"
    HOST_OOM = "host_oom"
    CUDA_OOM = "cuda_oom"
    HANG = "hang"  # the watchdog missed
    TIMEOUT = "timeout"  # its task's deadline passed
    NOT_READY = "not_ready"  # ready_timeout passed


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: for programs, and as a sentence."""

    kind: ExitKind
    code: int | None
    signal: int | None
    text: str


def classify(returncode: int, *, stop_reason: str, oom_kills: int, log_tail: list[str]) -> Exit:
    """`returncode` is negative for a signal. `stop_reason`: why the supervisor ended it; `oom_kills`: in its cgroup."""
    code = returncode if returncode >= 0 else None
    number = -returncode if returncode < 0 else None
    how = f"exit code {code}" if number is None else f"signal {number} ({_name(number)})"
    kind, text = ExitKind.EXITED, how
    oom_line = next((line for line in reversed(log_tail) if _CUDA_OOM.search(line)), "")
    if stop_reason in _ENDED_BY_US:
        kind, text = ExitKind(stop_reason), f"{_ENDED_BY_US[stop_reason]}; ended with {how}"
    elif stop_reason:
        kind, text = ExitKind.STOPPED, f"stopped ({stop_reason}), {how}"
    elif code == CONFIG_EXIT:
        kind, text = ExitKind.CONFIG, f"{how}: its configuration is broken; it is not restarted until that changes"
    elif number == signal.SIGKILL and oom_kills > 0:
        kind, text = ExitKind.HOST_OOM, f"{how}: the host ran out of memory (memory.events: oom_kill +{oom_kills})"
    elif oom_line and code != 0:
        kind, text = ExitKind.CUDA_OOM, f"{how}; its log says: {oom_line.strip()[-300:]}"
    elif number is not None:
        kind = ExitKind.SIGNAL
    elif code == 0:
        text = f"{how}, though it was not asked to stop"
    return Exit(kind, code, number, text)


_ENDED_BY_US: dict[str, str] = {
    ExitKind.HANG: "it hung (no progress within its watchdog)",
    ExitKind.TIMEOUT: "its task ran past its deadline",
    ExitKind.NOT_READY: "it was not ready within its ready_timeout",
}


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "real-time"


def evidence(ended: Exit, tail: list[str], samples: Iterable[Reading], gpus: tuple[str, ...]) -> dict[str, object]:
    """Exit code or signal, the last log lines, the stack dump in them, and the GPU's readings of the last minute."""
    lines = [line[:MAX_LINE_LENGTH] for line in tail]
    return {
        "kind": str(ended.kind),
        "exit_code": ended.code,
        "signal": ended.signal,
        "text": ended.text,
        "log": lines,
        "stack": [text for text in lines if any(mark in text for mark in STACK_MARKS)],
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
