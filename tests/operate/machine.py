"""A Debian 12 with a systemd and a network of its own, for the pages that an operator follows.

debootstrap makes its root, and util-linux's unshare boots Debian's systemd in it as the first process of its own
namespaces: the units of deploy/systemd run as on a server, with their users, sandboxes, watchdogs and readiness. Its
network is a loopback of its own, so its ports are free. Only blocks that fetch packages see this machine's network.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support import Spawned, need_tool, wait_until

BOOTED = ("running", "degraded")
FETCHES = ("apt-get ", "pip install ", "./dev build")
FROM_HERE = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_DEFAULT_TIMEOUT", "PIP_DISABLE_PIP_VERSION_CHECK")
"""How this machine reaches an index of packages. Nothing of it is in a file of the project."""
PACKAGES = "systemd,systemd-sysv,dbus,ca-certificates,procps"
MAKE_S = 900

# Run by unshare, with the root as $1. /dev holds what a container has, and not the disks of this machine.
BOOT = r"""
set -e
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for node in null zero full random urandom tty; do
    touch "$root/dev/$node"
    mount --bind "/dev/$node" "$root/dev/$node"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
# Not chroot: a process in one may make no user namespace, which Debian's Redis wants.
cd "$root"
pivot_root . mnt
exec env -i container=test sh -c 'umount -l /mnt && exec /lib/systemd/systemd'
"""

# Around each block: the shell of an operator keeps its variables, functions and folder from one block to the next.
BEFORE = "set -euo pipefail\nif [ -f /root/.page ]; then . /root/.page; else cd /root; fi\n"
AFTER = """
{ declare -f; declare -p | grep -v '^declare -[a-zA-Z]*r'; printf 'cd %q\\n' "$PWD"; } >/root/.page
"""


class Machine:
    """`run(text)` does what an operator does who pastes `text` into a root shell."""

    def __init__(self, folder: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("debootstrap and unshare need root")
        self.root = folder / "root"
        self._log = folder / "boot.log"
        debootstrap = [
            need_tool("debootstrap"),
            "--variant=minbase",
            f"--include={PACKAGES}",
            "bookworm",
            str(self.root),
        ]
        done = subprocess.run(debootstrap, capture_output=True, text=True, timeout=MAKE_S, check=False)
        assert done.returncode == 0, done.stdout[-2000:]
        (self.root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
        self._env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb"}
        self._env["PATH"] = f"/usr/local/sbin:/usr/local/bin:{self._env['PATH']}"
        self.boot()

    def boot(self) -> None:
        spaces = ["--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child"]
        argv = [need_tool("unshare"), *spaces, "sh", "-c", BOOT, "boot", str(self.root)]
        self._unshare = Spawned(argv, self._log, os.environ)
        self._init = wait_until(self._systemd, 30, lambda: self._unshare.output)
        wait_until(lambda: self.run("systemctl is-system-running || true").strip() in BOOTED, 60, "systemd to boot")

    def _systemd(self) -> int | None:
        assert self._unshare.running(), f"systemd can't boot on this machine: {self._unshare.output}"
        children = Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children").read_text().split()
        for child in map(int, children):
            if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return child
        return None

    def power_off(self) -> None:
        """At once, as by a cut of the power: all of its processes get SIGKILL."""
        self._unshare.send(signal.SIGKILL)
        self._unshare.reap()

    def remove(self) -> None:
        self.power_off()
        shutil.rmtree(self.root)

    def copy_the_clone(self, to: str) -> None:
        """The files that git has, or would add."""
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.split("\0")):
            target = self.root / to.lstrip("/") / name
            if (ROOT / name).exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target, follow_symlinks=False)

    def run(self, text: str, answers: dict[str, str] | None = None, timeout: float = MAKE_S) -> str:
        """The output. `answers` are typed at a terminal, each when its prompt appears. A command that fails fails the
        test."""
        fetches = any(word in text for word in FETCHES)
        script = self.root / "root" / "block"
        script.write_text(f"{BEFORE}{text}{AFTER}")
        spaces = ["--mount", "--uts", "--ipc", "--pid", "--root", "--wd", *([] if fetches else ["--net"])]
        argv = [need_tool("nsenter"), "--target", str(self._init), *spaces, "--", "env", "-i"]
        env = {**self._env, **(self._index() if fetches else {})}
        argv += [*(f"{name}={value}" for name, value in env.items()), "bash", "/root/block"]
        if answers:
            return _typed(argv, answers, timeout, text)
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )
        output = done.stdout.decode(errors="replace")
        assert done.returncode == 0, f"{text}\nexit code {done.returncode}:\n{output[-4000:]}\n{self.failed_units()}"
        return output

    def failed_units(self) -> str:
        """What the journal has about them."""
        spaces = ["--mount", "--pid", "--root", "--wd"]
        script = (
            "for unit in $(systemctl --failed --plain --no-legend | cut -d' ' -f1); do journalctl -n 20 -u $unit; done"
        )
        argv = [
            "nsenter",
            "--target",
            str(self._init),
            *spaces,
            "--",
            "env",
            "-i",
            "PATH=/usr/bin:/bin",
            "sh",
            "-c",
            script,
        ]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout[-4000:]

    def _index(self) -> dict[str, str]:
        env = {name: os.environ[name] for name in FROM_HERE if name in os.environ}
        if "PIP_CERT" in os.environ:
            shutil.copy(os.environ["PIP_CERT"], self.root / "root" / "index.pem")
            env["PIP_CERT"] = "/root/index.pem"
        if shutil.which("apt-config"):  # such as a proxy of this machine
            (self.root / "etc/resolv.conf").write_text(Path("/etc/resolv.conf").read_text())
        return env


def _typed(argv: list[str], answers: dict[str, str], timeout: float, text: str) -> str:
    """With a terminal of its own, as programs that ask for a password want it."""
    own, theirs = pty.openpty()
    process = subprocess.Popen(["setsid", "--ctty", "--wait", *argv], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    output, seen, waiting, end = "", 0, list(answers.items()), time.monotonic() + timeout
    while process.poll() is None or select.select([own], [], [], 0)[0]:
        assert time.monotonic() < end, output
        if not select.select([own], [], [], 0.1)[0]:
            continue
        try:
            output += os.read(own, 4096).decode(errors="replace")
        except OSError:  # the other end is closed
            break
        if waiting and re.search(waiting[0][0], output[seen:]):
            seen = len(output)
            os.write(own, f"{waiting.pop(0)[1]}\n".encode())
    os.close(own)
    assert process.wait(timeout) == 0, f"{text}\n{output[-4000:]}"
    assert not waiting, f"it did not ask for {waiting[0][0]}:\n{output}"
    return output
