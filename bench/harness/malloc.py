"""The malloc of the private server: jemalloc, as in the builds of distributions, unless libc's is asked for.

The wheel's server is built on libc's. If the machine has no jemalloc, Debian's package is unpacked beside the peers,
for the bench only; that takes no root.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.harness.environment import FOLDER, ROOT
from dalston_site.embedded.valkey import jemalloc, malloc_environment

JEMALLOC, LIBC = "jemalloc", "libc"
PACKAGE = "libjemalloc2"
LIBRARY = FOLDER / JEMALLOC / "libjemalloc.so.2"


def environment_for(malloc: str, *, fetch: bool) -> str:
    """Of a server on that malloc. `fetch`: get jemalloc if it is not there. If it can't be had, libc's it is."""
    if malloc == LIBC:
        return malloc_environment(None)
    if library := jemalloc():
        return malloc_environment(library)
    if fetch and not LIBRARY.exists():
        _fetch()
    return malloc_environment(str(LIBRARY) if LIBRARY.exists() else None)


def malloc_of(server: int) -> str:
    """What it really runs on: a library that does not fit is passed over in silence."""
    return JEMALLOC if "libjemalloc" in Path(f"/proc/{server}/maps").read_text() else LIBC


def _fetch() -> None:
    with tempfile.TemporaryDirectory(prefix="dalston-bench-") as name:
        folder = Path(name)
        try:
            subprocess.run(["apt-get", "download", "-qq", PACKAGE], cwd=folder, check=True, capture_output=True)
            [package] = folder.glob("*.deb")
            subprocess.run(["dpkg-deb", "--extract", package, folder], check=True, capture_output=True)
            [found] = folder.rglob(LIBRARY.name)
            LIBRARY.parent.mkdir(parents=True, exist_ok=True)
            half = LIBRARY.with_suffix(".half")
            shutil.copyfile(found, half)
            half.rename(LIBRARY)  # whole, or not there
        except (OSError, ValueError, subprocess.CalledProcessError) as failed:
            print(f"There is no jemalloc here, and {PACKAGE} can't be had: {failed}. The server runs on libc's malloc.")
        else:
            print(f"Unpacked {PACKAGE} into {LIBRARY.parent.relative_to(ROOT)}, for the bench only.")
