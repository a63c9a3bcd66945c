import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.deploy.images import Buildah, Container
from tests.support import Spawned

IMAGES = {
    "dalston-server": ("server", {}),
    "dalston-node": ("node", {}),
    "dalston-audio": ("node", {"NODE_LOCK": "requirements-audio.lock"}),
}


def make_images(folder: Path) -> Buildah:
    made = Buildah(folder)
    made.base()
    for name, (target, arguments) in IMAGES.items():
        made.build(target, name, **arguments)
    return made


@pytest.fixture(scope="package")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    if os.geteuid() != 0:
        pytest.skip("debootstrap and buildah's chroot isolation need root")
    made = make_images(tmp_path_factory.mktemp("images"))
    yield made
    made.remove()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Spawned]]:
    """Start a process in a container: start(container, "dalston-manage", "check", DALSTON_LOG_LEVEL="DEBUG")."""
    made: list[Spawned] = []

    def run(container: Container, *command: str, **env: str) -> Spawned:
        made.append(container.start(tmp_path / f"{len(made)}.log", *command, **env))
        return made[-1]

    yield run
    for process in made:
        for each in psutil.Process(process.pid).children(recursive=True) if process.running() else []:
            each.kill()
        process.reap()
