"""Recipe of a private Postgres server: its data folder, command and URL."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psutil

from dalston_site.embedded.binaries import ServerError, postgres_program
from dalston_site.embedded.guarded import UNPRIVILEGED_UID, can_change_user, guarded
from dalston_site.embedded.secret import secret

USER = DATABASE = "dalston"
# A crash of the machine may lose everything: for tests only.
UNSAFE_BUT_FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "log_min_messages": "warning",  # the log may be long
}


class Postgres:
    """The recipe of a server in `folder`. It runs nothing itself but initdb."""

    name = "postgres"
    stop_signal = signal.SIGINT  # fast shutdown: clients are disconnected, the data is written
    noise = ""

    def __init__(self, folder: Path, *, fast: bool = False) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.fast = fast

    def prepare(self) -> None:
        """Make the data folder, unless it is there. An interrupt at any moment leaves no half-made one."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for leftover in self.folder.glob("new-*"):
            # An initdb whose parent was just killed may still be deleting it, too.
            shutil.rmtree(leftover, ignore_errors=True)
        if self.data.exists():
            self._remove_lock_of_a_zombie()
            return
        new = Path(tempfile.mkdtemp(prefix="new-", dir=self.folder))
        try:
            self._make(new)
            new.rename(self.data)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def command(self, port: int) -> list[str]:
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            "unix_socket_directories": "",
            "max_connections": "200",
            "shared_buffers": "64MB",
            "log_line_prefix": "",
            "log_min_messages": "fatal",  # a failed statement is reported by the program that sent it
            **(UNSAFE_BUT_FAST if self.fast else {}),
        }
        flags = [flag for key, value in options.items() for flag in ("-c", f"{key}={value}")]
        return self._run_as([str(postgres_program("postgres")), "-D", str(self.data), *flags], self.data)

    def is_ready(self, port: int, pid: int) -> bool:
        """Postgres itself writes `ready` as line 8 of its pid file; connecting would fill its log."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[3] == str(port) and lines[7].strip() == "ready"

    def url(self, port: int) -> str:
        password = secret(self.folder / "password").read_text()
        return f"postgres://{USER}:{password}@127.0.0.1:{port}/{DATABASE}"

    def _remove_lock_of_a_zombie(self) -> None:
        """A killed Postgres that is not reaped yet (some containers have a slow init) would count as alive."""
        lock = self.data / "postmaster.pid"
        try:
            if psutil.Process(int(lock.read_text().split()[0])).status() == psutil.STATUS_ZOMBIE:
                lock.unlink()
        except (OSError, ValueError, IndexError, psutil.NoSuchProcess):
            return  # no lock, or one that Postgres itself knows to be stale

    def _make(self, folder: Path) -> None:
        if can_change_user():
            os.chown(folder, UNPRIVILEGED_UID, UNPRIVILEGED_UID)
        password = secret(self.folder / "password")
        self._call(
            [
                str(postgres_program("initdb")),
                "-D",
                str(folder),
                "-U",
                USER,
                "--pwfile",
                str(password),
                "--no-instructions",
            ]
            + ["--auth", "scram-sha-256", "--encoding", "UTF8", "--locale-provider", "builtin", "--locale", "C.UTF-8"]
            + (["--no-sync"] if self.fast else []),
            folder,
        )
        self._call(
            [str(postgres_program("postgres")), "--single", "-D", str(folder), "-c", "fsync=off", "template1"],
            folder,
            script=f"CREATE DATABASE {DATABASE};\n",
        )

    def _call(self, argv: list[str], data: Path, script: str = "") -> None:
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        done = subprocess.run(
            self._run_as(argv, data), input=script, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ServerError(f"{Path(argv[0]).name} failed (exit {done.returncode}):\n{done.stdout}{done.stderr}")

    def _run_as(self, argv: list[str], data: Path) -> list[str]:
        user = None
        if os.geteuid() == 0:
            if not can_change_user():
                raise ServerError(
                    "Postgres refuses to run as root, and there is no `setpriv` here to start it as another user. "
                    "Install util-linux, run as an ordinary user, or set DATABASE_URL."
                )
            user = data.stat().st_uid or UNPRIVILEGED_UID
        return guarded(argv, dies_with=self.stop_signal, user=user)
