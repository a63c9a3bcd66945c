"""Exits of processes: the kind and the text, by evidence only."""

import pytest

from supervisor.process.exits import ExitKind, classify


@pytest.mark.parametrize(
    ("returncode", "seen", "kind", "text"),
    [
        (-9, ("", 0, []), ExitKind.SIGNAL, "signal 9 (SIGKILL)"),
        (-9, ("", 1, []), ExitKind.HOST_OOM, "ran out of memory (memory.events: oom_kill +1)"),
        (1, ("", 1, []), ExitKind.EXITED, "exit code 1"),
        (1, ("", 0, ["torch.OutOfMemoryError: CUDA out of memory. Tried"]), ExitKind.CUDA_OOM, "CUDA out of memory"),
        (0, ("", 0, []), ExitKind.EXITED, "it was not asked to stop"),
        (78, ("", 0, []), ExitKind.CONFIG, "configuration is broken"),
        (-6, ("hang", 0, []), ExitKind.HANG, "no progress"),
        (-9, ("timeout", 1, []), ExitKind.TIMEOUT, "past its deadline"),
        (0, ("drain", 0, []), ExitKind.STOPPED, "stopped (drain)"),
        (-11, ("", 0, []), ExitKind.SIGNAL, "signal 11 (SIGSEGV)"),
    ],
)
def test_the_reason_of_an_exit_needs_evidence(
    returncode: int, seen: tuple[str, int, list[str]], kind: ExitKind, text: str
) -> None:
    reason, oom_kills, tail = seen
    exited = classify(returncode, stop_reason=reason, oom_kills=oom_kills, log_tail=tail)
    assert exited.kind is kind
    assert text in exited.text
