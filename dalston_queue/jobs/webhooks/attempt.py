"""One attempt to send one webhook. The outcome is a value; nothing is raised.

The name is looked up once, each of its addresses must be allowed, and the connection goes to the address, not to the
name. No redirect is followed, and only the status of the answer is read: a receiver learns nothing and holds the thread
no longer than the timeout, which includes the lookup (lookups.py).
"""

import http.client
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dalston_queue.addresses import Network, Target
from dalston_queue.database import storable_text
from dalston_queue.jobs.errors import InvalidCallback
from dalston_queue.jobs.webhooks.lookups import LookupFailed, Lookups, lookups
from dalston_queue.jobs.webhooks.target import check_address
from dalston_queue.pinned import PinnedConnection


@dataclass(frozen=True, slots=True)
class Delivered:
    code: int


@dataclass(frozen=True, slots=True)
class NotDelivered:
    why: str
    code: int | None = None  # the receiver's status, if it answered


def send(
    target: Target,
    headers: Mapping[str, str],
    body: bytes,
    *,
    timeout_s: float,
    allowed: Sequence[Network],
    names: Lookups = lookups,
) -> Delivered | NotDelivered:
    end = time.monotonic() + timeout_s
    try:
        addresses = _look_up(target, allowed, names, timeout_s)
        code = _post(addresses, target, headers, body, end)
    except (InvalidCallback, LookupFailed) as error:
        return NotDelivered(str(error))
    except TimeoutError:
        return NotDelivered(f"no answer within {timeout_s:g} s")
    except Exception as error:  # noqa: BLE001 (whatever a receiver causes: this attempt failed)
        if time.monotonic() >= end:  # cut off
            return NotDelivered(f"no answer within {timeout_s:g} s")
        # Bytes that are not HTTP are not repeated in the message: they may hold anything.
        text = "" if isinstance(error, http.client.HTTPException) else f": {error}"
        return NotDelivered(storable_text(f"{type(error).__name__}{text}"[:500]))
    if 200 <= code < 300:
        return Delivered(code)
    note = ", and redirects are not followed" if 300 <= code < 400 else ""
    return NotDelivered(f"the receiver answered {code}{note}", code)


def _look_up(target: Target, allowed: Sequence[Network], names: Lookups, timeout_s: float) -> list[str]:
    """The addresses of the name. Raises InvalidCallback if any of them may not be called."""
    addresses = names.find(target.host, timeout_s)
    for address in addresses:
        check_address(address, allowed)
    return addresses


def _post(addresses: list[str], target: Target, headers: Mapping[str, str], body: bytes, end: float) -> int:
    """The receiver's status. The next address is tried only as long as nothing has been sent."""
    failure: OSError | None = None
    for address in addresses:
        connection = PinnedConnection(target, address, max(0.1, end - time.monotonic()))
        # A receiver that sends a byte now and then would outlive any timeout of a single read.
        alarm = threading.Timer(max(0.1, end - time.monotonic()), connection.cut)
        alarm.daemon = True
        alarm.start()
        try:
            try:
                connection.connect()
            except OSError as error:
                failure = error
                continue
            connection.request("POST", target.path, body, {"Host": target.host_header, **headers})
            return connection.getresponse().status
        finally:
            alarm.cancel()
            connection.close()
    raise failure or OSError(f"{target.host} has no address")
