"""The one place where an engine's outcome becomes what the broker settles."""

from __future__ import annotations

import msgspec

from dalston_queue.broker import messages
from dalston_queue.broker.messages import ErrorInfo
from dalston_queue.broker.types import Cause

from .outcomes import Cancelled, Done, Failed, Outcome, Reject, Retry

MAX_RESULT_BYTES = 256 * 1024


def settlement(outcome: Outcome, max_bytes: int = MAX_RESULT_BYTES) -> messages.Outcome:
    """Never raises: a result that can't be sent is a rejected task, because a second run would give it again."""
    match outcome:
        case Done(result):
            return _completed(result, max_bytes)
        case Retry(message, after, rate_limited):
            cause = Cause.RATE_LIMITED if rate_limited else Cause.ERROR
            error = ErrorInfo(message=message, type="Retry", cause=cause, retry_after_s=after)
        case Reject(message):
            error = ErrorInfo(message=message, type="Reject", cause=Cause.REJECTED)
        case Cancelled():
            return messages.Cancelled()
        case Failed(message, kind, trace, gpu_oom):
            cause = Cause.GPU_OOM if gpu_oom else Cause.ERROR
            error = ErrorInfo(message=message, type=kind, cause=cause, traceback=trace)
    return messages.Failed(error)


def timed_out(seconds: float) -> messages.Outcome:
    message = f"still running after {seconds:.0f} s, its timeout"
    return messages.Failed(ErrorInfo(message=message, type="Timeout", cause=Cause.TIMEOUT))


def _completed(result: object, max_bytes: int) -> messages.Outcome:
    try:
        encoded = msgspec.json.encode(result)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        return _rejected(f"the result is not JSON: {error}")
    if len(encoded) > max_bytes:
        return _rejected(
            f"the result has {len(encoded)} bytes, more than {max_bytes}: "
            "write it into task.artifacts and return its path"
        )
    return messages.Completed(msgspec.Raw(encoded))


def _rejected(message: str) -> messages.Outcome:
    return messages.Failed(ErrorInfo(message=message, type="BadResult", cause=Cause.REJECTED))
