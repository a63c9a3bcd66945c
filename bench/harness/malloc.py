"""The malloc of the private server: jemalloc, as in the builds of distributions, unless libc's is asked for.

The wheel's server is built on libc's. If the machine has no jemalloc, Debian's package is unpacked beside the peers,
for the bench only; that takes no root.
"""

import subprocess
import tempfile
from pathlib import Path

from bench.harness.environment import FOLDER, ROOT
from dalston_site.embedded.valkey import jemalloc, malloc_environment

JEMALLOC, LIBC = "jemalloc", "libc"
PACKAGE = "libjemalloc2"
LIBRARY = FOLDER / JEMALLOC / "libjemalloc.so.2"


def environment_for(malloc: str, *, fetch: bool) -> list[str]:
    """Of a server on that malloc. `fetch`: get jemalloc if it is not there. If it can't be had, libc's it is."""
    if malloc == LIBC:
        return malloc_environment(None)
    if library := jemalloc():
        return malloc_environment(library)
    if fetch and not LIBRARY.exists():
        _fetch()
    return malloc_environment(str(LIBRARY) if LIBRARY.exists() else None)


def malloc_of(server: int) -> str:
    """What it really runs on: a library that does not fit, or a path with a space, is passed over in silence."""
    return JEMALLOC if "libjemalloc" in Path(f"/proc/{server}/maps").read_text() else LIBC


def _fetch() -> None:
    LIBRARY.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=LIBRARY.parent) as folder:
        try:
            _run(folder, "apt-get", "download", "-qq", PACKAGE)
            _run(folder, "dpkg-deb", "--extract", *Path(folder).glob("*.deb"), folder)
            [found] = Path(folder).rglob(LIBRARY.name)
            found.rename(LIBRARY)  # whole, or not there
        except (OSError, ValueError, subprocess.SubprocessError) as failed:
            why = str(getattr(failed, "stderr", "") or failed).strip().splitlines()[-1]
            print(f"There is no jemalloc here, and {PACKAGE} can't be had: {why}")
        else:
            print(f"Unpacked {PACKAGE} into {LIBRARY.parent.relative_to(ROOT)}, for the bench only.")


def _run(folder: str, *command: str | Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60)
