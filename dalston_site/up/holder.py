"""One `up` per data folder: the lock, the state file that names its holder, and the clean-up after a kill -9."""

import fcntl
import json
import os
import signal
import time
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import psutil

from dalston_site.embedded.secret import write_private
from dalston_site.up import family
from dalston_site.up.console import Console
from dalston_site.up.family import Identity
from dalston_site.up.stopping import UpError

CLEAN_UP_TIMEOUT_S = 8.0


class Holder:
    """Locks the data folder while it is entered. The kernel releases the lock at any end of this process."""

    _lock: IO[str]

    def __init__(self, data: Path, url: str, console: Console) -> None:
        self.data = data
        self.url = url
        self.console = console
        self.state_file = data / "up.json"
        self._since = time.time()
        self._children: dict[str, Identity] = {}

    def __enter__(self) -> Self:
        try:
            self.data.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = (self.data / "up.lock").open("a")
        except OSError as error:
            raise UpError(
                f"The data folder {self.data} can't be used: {error.strerror}. Choose another with --data."
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UpError(self._holder()) from None
        self._clean_up()
        self._write()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.state_file.unlink(missing_ok=True)
        self._lock.close()

    def record(self, name: str, pid: int) -> None:
        """Records a child for the clean-up of the next `up`, if this one is killed."""
        if identity := Identity.of(pid):
            self._children[name] = identity
            self._write()

    def _write(self) -> None:
        children = {name: [child.pid, child.started] for name, child in self._children.items()}
        state = {"pid": os.getpid(), "since": self._since, "url": self.url, "children": children}
        write_private(self.state_file, json.dumps(state, indent=2))

    def _read(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self.state_file.read_text()))
        except (OSError, ValueError):  # none, or the other `up` is just starting or stopping
            return {}

    def _holder(self) -> str:
        state = self._read()
        if not state:
            return (
                f"{self.data} is in use by another ./dev up that is just starting or stopping. Try again in a moment."
            )
        since = datetime.fromtimestamp(state["since"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        return (
            f"{self.data} is in use by the ./dev up with pid {state['pid']}, since {since}, at {state['url']}. "
            f"Stop that one (Ctrl-C there, or: kill {state['pid']}), or start this one with another --data and --port."
        )

    def _clean_up(self) -> None:
        """Ends the processes of a killed `up`. It is not running: this process has its lock."""
        recorded = [Identity(pid, started) for pid, started in self._read().get("children", {}).values()]
        left = family.descendants([*family.living(recorded), *family.marked(self.data)])
        if not left:
            return
        self.console.write(f"Cleaning up after a ./dev up that was killed: {len(left)} processes.")
        for process in family.living(recorded):
            try:
                # INT makes Postgres disconnect its clients; the others take it as Ctrl-C.
                process.send_signal(signal.SIGINT)
            except psutil.Error:
                continue
        remaining = family.wait(left, CLEAN_UP_TIMEOUT_S)
        stuck = family.kill({*family.descendants(remaining), *family.marked(self.data)})
        if stuck:
            pids = ", ".join(str(process.pid) for process in stuck)
            raise UpError(f"Processes of an earlier ./dev up can't be ended: {pids}.")
