"""`python -m engines.sdk run path/engine.yaml`: one engine without a supervisor, under systemd or Kubernetes."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path

from .manifest import CONFIG_EXIT, ManifestError, engine_path, read_manifest


def main(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        sys.stdout.write(f"dalston {version('dalston')}\n")
        return 0
    if len(arguments) != 2 or arguments[0] != "run":
        sys.stderr.write("usage: python -m engines.sdk run (path/engine.yaml | builtin/NAME) | --version\n")
        return 2
    try:
        manifest = read_manifest(engine_path(arguments[1], Path()))
    except ManifestError as error:
        sys.stderr.write(f"{error}\n")
        return CONFIG_EXIT
    program = sys.executable if manifest.command[0] in ("python", "python3") else manifest.command[0]
    os.environ.update(manifest.env)
    os.environ["DALSTON_ENGINE_MANIFEST"] = str(Path(manifest.folder, "engine.yaml"))
    os.chdir(manifest.folder)
    try:
        # exec, not a child: TERM, the watchdog and the exit code are the engine's own.
        os.execvp(program, [program, *manifest.command[1:]])  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"{manifest.folder}/engine.yaml: field command: can't run {program!r}: {error.strerror}\n")
        return CONFIG_EXIT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
