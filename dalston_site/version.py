"""The version of this installation. docs/operate/upgrade.md says how versions are numbered."""

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def installed_version() -> str:
    try:
        return version("dalston")
    except PackageNotFoundError:  # run from the source, without an installation
        with (Path(__file__).resolve().parent.parent / "pyproject.toml").open("rb") as file:
            return str(tomllib.load(file)["project"]["version"])
