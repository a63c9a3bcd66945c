"""Valkey servers on their own ports, for topologies and for restarts on the same port. No password, loopback only."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from dalston_site.embedded.binaries import valkey_server
from tests.support import reserve_port, wait_until


class Node:
    """One server process. start() and kill() can be repeated, on the same port and folder."""

    def __init__(self, folder: Path, *flags: str, role: str = "server") -> None:
        self.folder = folder
        self.port = reserve_port()
        self.flags = flags
        self._role = role
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, socket_timeout=10, decode_responses=True)

    def start(self, *more: str, ready: bool = True) -> "Node":
        base = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        if self._role == "sentinel":
            config = self.folder / "sentinel.conf"
            if not config.exists():
                config.write_text(
                    f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\n" + "\n".join(self.flags) + "\n"
                )
            argv = [str(valkey_server()), str(config), "--sentinel"]
        else:
            argv = [str(valkey_server()), *base, *self.flags, *more]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        if ready:
            wait_until(self._answers, what=f"the {self._role} on port {self.port}")
        return self

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            with self.client as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


class Nodes(list[Node]):
    """Servers that are killed at the end of the test."""

    def start(self, folder: Path, *flags: str, role: str = "server") -> Node:
        self.append(Node(folder, *flags, role=role))
        return self[-1].start()


@contextmanager
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    try:
        yield made
    finally:
        for node in made:
            node.kill()
