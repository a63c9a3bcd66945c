"""`python -m engines.sdk run path/engine.yaml`: an engine alone, under systemd or Kubernetes, beating for itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .manifest import ManifestError, read_manifest

CONFIG_EXIT = 78


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] != "run":
        sys.stderr.write("usage: python -m engines.sdk run path/engine.yaml\n")
        return 2
    try:
        manifest = read_manifest(arguments[1])
    except ManifestError as error:
        sys.stderr.write(f"{error}\n")
        return CONFIG_EXIT
    program = sys.executable if manifest.command[0] in ("python", "python3") else manifest.command[0]
    os.environ.update(manifest.env)
    os.environ["DALSTON_ENGINE_MANIFEST"] = str(Path(manifest.folder, "engine.yaml"))
    os.chdir(manifest.folder)
    try:
        # Not a child but this very process: TERM, the watchdog and the exit code are the engine's own.
        os.execvp(program, [program, *manifest.command[1:]])  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"{manifest.folder}/engine.yaml: field command: can't run {program!r}: {error.strerror}\n")
        return CONFIG_EXIT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
