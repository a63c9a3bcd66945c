"""`.venv.bench`, where the peers are installed; made on first use, and again when their lock changes."""

import hashlib
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / ".venv.bench"
LOCK = ROOT / "bench" / "requirements.lock"


@cache
def peer_python() -> str:
    python = FOLDER / "bin" / "python"
    stamp = FOLDER / "installed-lock"
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        print(f"Installing the peers of {LOCK.relative_to(ROOT)} into {FOLDER.name}, for the bench only.")
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # The lock names everything. An older pip would look for psycopg[pool] itself, and take a newer psycopg.
        subprocess.run([*install, "--no-deps", "--require-hashes", "-r", str(LOCK)], check=True)
        stamp.write_text(digest)
    return str(python)


def python_of(peer: str) -> str:
    """Dalston runs in the product's own environment, everybody else in the bench's."""
    return sys.executable if peer.startswith("dalston") else peer_python()
