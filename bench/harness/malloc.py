"""The malloc of the private server: jemalloc, as in the builds of distributions, unless libc's is asked for.

The wheel's server is built on libc's, which is slower in a batch of many small pieces. If the machine has no jemalloc,
Debian's package is unpacked beside the peers, for the bench only; that takes no root.
"""

import subprocess
import tempfile
from pathlib import Path

from bench.harness.environment import FOLDER, ROOT
from dalston_site.embedded.valkey import LONG_CACHES, allocator

JEMALLOC, LIBC = "jemalloc", "libc"
PACKAGE = "libjemalloc2"
UNPACKED = FOLDER / JEMALLOC


def malloc(wanted: str, *, fetch: bool) -> str:
    """What to put into the server's environment. `fetch`: get what is wanted if it is not there."""
    if wanted == LIBC:
        return LONG_CACHES
    name, environment = allocator()
    if name == JEMALLOC:
        return environment
    if fetch and not UNPACKED.exists():
        _fetch()
    library = next(UNPACKED.rglob("libjemalloc.so.*"), None)
    return f"LD_PRELOAD={library}" if library else LONG_CACHES


def malloc_of(server: int) -> str:
    """What it really runs on: a library that does not fit is passed over in silence."""
    return JEMALLOC if "libjemalloc" in Path(f"/proc/{server}/maps").read_text() else LIBC


def _fetch() -> None:
    with tempfile.TemporaryDirectory(prefix="dalston-bench-") as folder:
        try:
            subprocess.run(["apt-get", "download", "-qq", PACKAGE], cwd=folder, check=True, capture_output=True)
            [package] = Path(folder).glob("*.deb")
            subprocess.run(["dpkg-deb", "--extract", package, UNPACKED], check=True, capture_output=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as failed:
            print(f"There is no jemalloc here, and {PACKAGE} can't be had: {failed}. The server runs on libc's malloc.")
        else:
            print(f"Unpacked {PACKAGE} into {UNPACKED.relative_to(ROOT)}, for the bench only.")
