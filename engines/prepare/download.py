"""Downloads what an `audio_url` names. Each hop of a redirect is checked like the first, by its text and by the
addresses of its name, and the connection goes to an address that was checked."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from dalston_queue.addresses import Network, Target, UrlRefused, check_address, read_url
from dalston_queue.pinned import PinnedConnection
from engines.sdk import BrokenConfigError

MAX_HOPS = 5
CONNECT_S = 20.0  # also the longest pause between two bytes
BLOCK = 1 << 18
PACE_AFTER_S = 30.0
"""Also the longest time from the connection to the end of the answer's head."""
MIN_BYTES_PER_S = 16_384
"""On average, after PACE_AFTER_S: a server that drips would hold the engine until the task's timeout."""
MOVED = (301, 302, 303, 307, 308)
PASSING = (408, 425, 429, *range(500, 600))  # another attempt may succeed


class Refused(Exception):
    """An address that may not be called, or an answer that no attempt will change."""


class Failed(Exception):
    """Another attempt may succeed."""


def allowed_networks() -> list[Network]:
    """DALSTON_AUDIO_ALLOWED_NETWORKS: private networks that may be called."""
    words = os.environ.get("DALSTON_AUDIO_ALLOWED_NETWORKS", "").replace(",", " ").split()
    try:
        return [ip_network(word) for word in words]
    except ValueError as error:
        raise BrokenConfigError(f"DALSTON_AUDIO_ALLOWED_NETWORKS: {error}") from None


def name_in(url: str) -> str:
    """What the file is called in sentences, when the client gave no name."""
    last = unquote(urlsplit(url).path.rpartition("/")[2])
    return "".join(letter for letter in last if letter.isprintable())[:200] or "the file at audio_url"


def download(
    url: str, into: Path, max_bytes: int, allowed: Sequence[Network], tick: Callable[[int, int | None], None]
) -> None:
    """Writes the file. `tick` is called with the bytes so far, and all of them if the server names their number.
    Raises Refused and Failed."""
    for _ in range(MAX_HOPS + 1):
        connection, answer = _get(url, allowed)
        try:
            if answer.status in MOVED and (place := answer.getheader("Location")):
                url = urljoin(url, place)
                continue
            if answer.status != 200:
                kind = Failed if answer.status in PASSING else Refused
                raise kind(f"audio_url: {_host(url)} answered {answer.status} {answer.reason}"[:300])
            return _save(answer, into, max_bytes, tick)
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"audio_url: the connection to {_host(url)} broke: {type(error).__name__}") from None
        finally:
            connection.close()
    raise Refused(f"audio_url: more than {MAX_HOPS} redirects")


def _get(url: str, allowed: Sequence[Network]) -> tuple[PinnedConnection, http.client.HTTPResponse]:
    try:
        target = read_url(url, allowed)
        addresses = _addresses(target)
        for address in addresses:
            check_address(address, allowed)  # all of them, before the first is called
    except UrlRefused as error:
        raise Refused(f"audio_url {error}") from None
    failure: Exception | None = None
    for address in addresses:
        connection = PinnedConnection(target, address, CONNECT_S)
        begun, late = time.monotonic(), threading.Timer(PACE_AFTER_S, connection.cut)
        late.start()
        try:
            headers = {"Host": target.host_header, "Accept-Encoding": "identity", "User-Agent": "Dalston"}
            connection.request("GET", target.path, headers=headers)
            answer = connection.getresponse()
            if time.monotonic() - begun >= PACE_AFTER_S:  # a head that was cut counts as a whole one
                answer.close()
                raise TimeoutError("its head came too slowly")
            return connection, answer
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            failure = error
        finally:
            late.cancel()
    raise Failed(f"audio_url: {target.host} does not answer: {type(failure).__name__}")


def _addresses(target: Target) -> list[str]:
    try:
        found = socket.getaddrinfo(target.host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Failed(f"audio_url: {target.host} was not found: {error.strerror}") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _save(
    answer: http.client.HTTPResponse, into: Path, max_bytes: int, tick: Callable[[int, int | None], None]
) -> None:
    total = int(size) if (size := answer.getheader("Content-Length") or "").isdecimal() else None
    problem = f"audio_url: the file has more than {max_bytes} bytes (DALSTON_MAX_UPLOAD_BYTES)"
    if total is not None and total > max_bytes:
        raise Refused(problem)
    arrived, ticked_at, begun = 0, 0.0, time.monotonic()
    with into.open("wb") as file:
        while block := answer.read1(BLOCK):
            arrived += len(block)
            if arrived > max_bytes:
                raise Refused(problem)
            file.write(block)
            seconds = time.monotonic() - begun
            if seconds > PACE_AFTER_S and arrived < MIN_BYTES_PER_S * seconds:
                raise Failed(f"audio_url: the server sends too slowly: {arrived} bytes in {seconds:.0f} s")
            if time.monotonic() - ticked_at > 0.2:
                ticked_at = time.monotonic()
                tick(arrived, total)
    if total is not None and arrived < total:
        raise Failed(f"audio_url: {arrived} of {total} bytes arrived")


def _host(url: str) -> str:
    return urlsplit(url).hostname or "the server"
