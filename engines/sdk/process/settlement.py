"""Settlement: an author's outcome as the message that the broker settles, and as what its circuit breaker counts."""

from __future__ import annotations

import math

import msgspec

from dalston_queue.broker.engine.breaker import Breaker
from dalston_queue.broker.protocol import messages
from dalston_queue.broker.protocol.messages import ErrorInfo
from dalston_queue.broker.protocol.types import Cause
from dalston_queue.broker.protocol.validate import MAX_DEPTH, json_too_deep
from dalston_queue.defaults import MAX_RESULT_BYTES

from ..outcomes import TRACEBACK_BYTES, Cancelled, Done, Failed, Outcome, Reject, Retry, text

MAX_DELAY_S = 365 * 86400.0  # a date past the last calendar year would raise where it is computed


def settlement(outcome: Outcome, max_bytes: int = MAX_RESULT_BYTES) -> messages.Outcome:
    """Never raises, and returns what can be sent: this task must not end the process, which has other tasks.

    A result that can't be sent rejects its task: another attempt would return the same.
    """
    match outcome:
        case Done(result):
            return _completed(result, max_bytes)
        case Retry(message, after, rate_limited):
            cause = Cause.RATE_LIMITED if rate_limited else Cause.ERROR
            error = ErrorInfo(message=text(message), type="Retry", cause=cause, retry_after_s=_seconds(after))
        case Reject(message):
            error = ErrorInfo(message=text(message), type="Reject", cause=Cause.REJECTED)
        case Cancelled():
            return messages.Cancelled()
        case Failed(message, kind, trace, gpu_oom, retriable):
            cause = Cause.GPU_OOM if gpu_oom else Cause.ERROR
            trace = text(trace, TRACEBACK_BYTES)
            error = ErrorInfo(message=text(message), type=text(kind), cause=cause, retriable=retriable, traceback=trace)
    return messages.Failed(error)


def count(breaker: Breaker, outcome: Outcome, now: float) -> None:
    """A rejected task is no failure of the engine."""
    if not isinstance(outcome, Cancelled):
        breaker.record(not isinstance(outcome, Failed | Retry), now)


def timed_out(seconds: float) -> messages.Outcome:
    message = f"still running after {seconds:.0f} s, its timeout"
    return messages.Failed(ErrorInfo(message=message, type="Timeout", cause=Cause.TIMEOUT))


def _completed(result: object, max_bytes: int) -> messages.Outcome:
    try:
        encoded = msgspec.json.encode(result)
    except BaseException as error:  # noqa: BLE001 (it runs an author's properties, which may raise anything)
        return _rejected(f"the result is not JSON: {text(error)}")
    if len(encoded) > max_bytes:
        return _rejected(
            f"the result has {len(encoded)} bytes, more than {max_bytes}: "
            "give the engine an artifact store (DALSTON_ARTIFACTS_URL), or put a file there by task.put_artifact"
        )
    if json_too_deep(encoded):  # of the encoded result: a dataclass is a level as well
        return _rejected(
            f"the result is nested deeper than {MAX_DEPTH} levels: return it flatter, or as a file by task.put_artifact"
        )
    return messages.Completed(msgspec.Raw(encoded))


def _seconds(after: object) -> float | None:
    """None, which leaves the delay to the retry policy, for a value that is no number of seconds."""
    try:
        seconds = float(after)  # type: ignore[arg-type]
    except BaseException:  # noqa: BLE001 (an author's own __float__, which may even exit)
        return None
    return min(max(0.0, seconds), MAX_DELAY_S) if math.isfinite(seconds) else None


def _rejected(message: str) -> messages.Outcome:
    return messages.Failed(ErrorInfo(message=message, type="BadResult", cause=Cause.REJECTED))
