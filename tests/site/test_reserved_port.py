"""A port that a test reserves is refused to others, answers nobody, and is there for the test's own server."""

import socket

import pytest

from tests.support import reserve_port


def test_a_reserved_port_is_for_the_server_that_is_told_of_it() -> None:
    port = reserve_port()
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(("127.0.0.1", port))
    for _ in range(2):  # it may be started again
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
            pass


def test_the_system_gives_it_to_nobody_who_asks_for_any_port() -> None:
    mine = {reserve_port() for _ in range(20)}
    assert len(mine) == 20
    others = [socket.create_server(("127.0.0.1", 0)) for _ in range(200)]
    assert not mine & {other.getsockname()[1] for other in others}
    for other in others:
        other.close()
