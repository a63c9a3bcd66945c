"""Recipe of a private Valkey server: its data folder, command and URL."""

import signal
from pathlib import Path

import redis

from dalston_site.embedded.binaries import valkey_server
from dalston_site.embedded.guarded import guarded
from dalston_site.embedded.secret import secret, write_private

SETTINGS = {
    "bind": "127.0.0.1",
    "appendonly": "yes",
    "save": '""',  # the append-only file is the only copy on disk
    "maxmemory-policy": "noeviction",  # a full server must refuse work, never forget it
    "loglevel": "warning",
}


class Valkey:
    """The recipe of a server in `folder`; `settings` are lines of its configuration file."""

    name = "valkey"
    stop_signal = signal.SIGTERM
    noise = "Memory overcommit must be enabled"  # advice for a server with much data, in 300 characters

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.settings = {**SETTINGS, **(settings or {})}

    def prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def command(self, port: int) -> list[str]:
        # In a file: every user of the machine can read a command line.
        lines = {**self.settings, "port": str(port), "dir": f'"{self.folder}"', "requirepass": self._password()}
        path = self.folder / "valkey.conf"
        write_private(path, "".join(f"{key} {value}\n" for key, value in lines.items()))
        return guarded([str(valkey_server()), str(path)], dies_with=self.stop_signal)

    def is_ready(self, port: int, pid: int) -> bool:
        try:
            with redis.Redis.from_url(self.url(port), socket_timeout=1) as client:
                return int(client.info("server")["process_id"]) == pid
        except redis.RedisError:  # not listening yet, or still loading its file
            return False

    def url(self, port: int) -> str:
        return f"redis://:{self._password()}@127.0.0.1:{port}/0"

    def _password(self) -> str:
        return secret(self.folder / "password").read_text()
