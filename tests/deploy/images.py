"""The images of deploy/docker, built on a bare Debian without a daemon, and processes in their containers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from tests.conftest import ROOT
from tests.support import Spawned, need_tool

DEBIAN = "http://deb.debian.org/debian"
CERTIFICATES = "/etc/ssl/certs"
FROM_HERE = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "PIP_DEFAULT_TIMEOUT")
"""How this machine reaches an index of packages. Nothing of it is in a file of the project."""
BUILD_S = 900


class Buildah:
    """Images and containers in a folder of their own, without a daemon and without namespaces."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        storage = ["--storage-driver", "vfs", "--root", str(folder / "store"), "--runroot", str(folder / "run")]
        self._program = [need_tool("buildah"), *storage]

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._program, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=BUILD_S, check=False
        )
        assert done.returncode == 0, f"{arguments}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout.strip()

    def base(self) -> None:
        root = self.folder / "base"
        packages = "--include=python3,python3-venv,ca-certificates"
        debootstrap = [need_tool("debootstrap"), "--variant=minbase", packages, "bookworm", str(root), DEBIAN]
        subprocess.run(debootstrap, check=True, capture_output=True, timeout=BUILD_S)
        base = self("from", "scratch")
        self("copy", "-q", base, str(root), "/")
        self("commit", "-q", base, "localhost/base")
        shutil.rmtree(root)

    def build(self, target: str, name: str, **arguments: str) -> None:
        given = {name: os.environ[name] for name in FROM_HERE if name in os.environ}
        # The certificates of the machine, as for its own pip: they are mounted while it builds, and in no image.
        options = ["--isolation", "chroot", "--format", "docker", "-v", f"{CERTIFICATES}:{CERTIFICATES}:ro"]
        for argument, value in {"BASE": "localhost/base", **given, **arguments}.items():
            options += ["--build-arg", f"{argument}={value}"]
        self("bud", *options, "-f", "deploy/docker/Dockerfile", "--target", target, "-t", name, ".")

    def image(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("inspect", "--type", "image", f"localhost/{name}"))["Docker"]
        return found

    def container(self, image: str) -> Container:
        return Container(self, self("from", "--pull-never", f"localhost/{image}"))

    def argv(self, *arguments: str) -> list[str]:
        return [*self._program, *arguments]

    def remove(self) -> None:
        shutil.rmtree(self.folder)  # gigabytes


class Container:
    """A container: a folder with the files of its image, and the processes that run in it."""

    def __init__(self, buildah: Buildah, name: str) -> None:
        self._buildah = buildah
        self.name = name
        self.user = ""
        self.volumes: dict[Path, str] = {}
        self.env: dict[str, str] = {}

    def start(self, log: Path, *command: str, **more: str) -> Spawned:
        options = ["--isolation", "chroot", *(["--user", self.user] if self.user else [])]
        options += [f"--env={name}={value}" for name, value in {**self.env, **more}.items()]
        for folder, path in self.volumes.items():
            options += ["-v", f"{folder}:{path}"]
        return Spawned(self._buildah.argv("run", *options, self.name, "--", *command), log, os.environ, ROOT)

    @property
    def root(self) -> Path:
        return Path(self._buildah("mount", self.name))


def inside(process: Spawned) -> psutil.Process:
    """The process of the container itself, below those of buildah."""
    children = psutil.Process(process.pid).children(recursive=True)
    return next(each for each in children if "buildah" not in each.cmdline()[0])


def written(root: Path, uid: int, but: Mapping[str, str]) -> list[str]:
    """What this user has written into a container. `but`: folders that it may write, and why."""
    except_ = [word for folder in but for word in ("-not", "-path", f"{root}/{folder}/*")]
    find = ["find", str(root), "-xdev", "-uid", str(uid), "-type", "f", *except_]
    return subprocess.run(find, capture_output=True, text=True, check=True).stdout.split()
