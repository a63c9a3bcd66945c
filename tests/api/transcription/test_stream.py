"""The body of an upload as a file: what it does when the client sends nothing, too much, or goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from dalston_queue.api.requests import stream
from dalston_queue.api.requests.stream import UploadBroken, UploadTooLarge, streamed_body

Message = Mapping[str, Any]


def read_from(messages: Sequence[Message], read: Callable[[Any], Any]) -> Any:
    """What `read` returns, on a thread, of a body that comes in these messages; after the last one nothing comes."""
    left = list(messages)

    async def receive() -> Message:
        return left.pop(0) if left else await _never()

    async def served() -> Any:
        return await asyncio.to_thread(read, streamed_body(receive))

    return asyncio.run(served())


def _never() -> Awaitable[Message]:
    return asyncio.get_running_loop().create_future()


def part(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def test_it_is_read_in_pieces_of_any_size() -> None:
    messages = [part(b"abc"), part(b""), part(b"defg"), part(b"h", more=False)]
    assert read_from(messages, lambda body: [body.read(2), body.read(4), body.read(), body.read(5)]) == [
        b"ab", b"cdef", b"gh", b"",
    ]  # fmt: skip
    assert read_from([part(b"", more=False)], lambda body: body.read()) == b""


def test_a_client_that_sends_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "IDLE_TIMEOUT_S", 0.05)
    with pytest.raises(UploadBroken, match="nothing of the upload came"):
        read_from([part(b"abc")], lambda body: body.read())


def test_a_client_that_goes_away_is_noticed() -> None:
    with pytest.raises(UploadBroken, match="disconnected"):
        read_from([part(b"abc"), {"type": "http.disconnect"}], lambda body: body.read())


def test_more_than_may_come_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "limit", lambda: 5)
    with pytest.raises(UploadTooLarge):
        read_from([part(b"abc"), part(b"def"), part(b"never")], lambda body: body.read())
