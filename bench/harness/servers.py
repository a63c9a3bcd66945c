"""The private Valkey of a run, configured as in production: append-only file, fsync every second."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from dalston_site.embedded.server import Server
from dalston_site.embedded.valkey import Valkey

SETTINGS = {
    "appendonly": "yes",
    "appendfsync": "everysec",
    # A rewrite of the file forks in the middle of somebody's round.
    "auto-aof-rewrite-percentage": "0",
}


class BenchServer:
    def __init__(self, url: str) -> None:
        self.url = url
        self.client: redis.Redis = redis.Redis.from_url(url)

    @property
    def pid(self) -> int:
        return int(self.info("server")["process_id"])

    def database(self, number: int) -> str:
        return f"{self.url.rpartition('/')[0]}/{number}"

    def flush(self) -> None:
        self.client.execute_command("FLUSHALL", "SYNC")  # freed in the background, it would be somebody else's memory

    def used_memory(self) -> int:
        return int(self.info("memory")["used_memory"])

    def calls(self) -> dict[str, int]:
        """How often each command was called since `reset_calls`."""
        stats = self.info("commandstats")
        return {name.removeprefix("cmdstat_"): int(values["calls"]) for name, values in stats.items()}

    def reset_calls(self) -> None:
        self.client.config_resetstat()

    def version(self) -> str:
        info = self.info("server")
        return str(info.get("valkey_version") or info["redis_version"])

    def info(self, section: str) -> dict[str, Any]:
        return dict(self.client.info(section))


@contextmanager
def private_server(environment: list[str] | None = None) -> Iterator[BenchServer]:
    """`environment`: as for `Valkey`."""
    folder = Path(tempfile.mkdtemp(prefix="dalston-bench-"))
    try:
        server = Server(Valkey(folder, SETTINGS, environment), folder)
        try:
            yield BenchServer(server.url)
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
