"""Static files in production: the collected ones under hashed names; one that was not collected, from the package.

So a forgotten `collectstatic` costs compression and caching, no page. A system check and `manage.py doctor` name it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from whitenoise.storage import CompressedManifestStaticFilesStorage


class CollectedOrOwn(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    manifest_strict = False

    def load_manifest(self) -> tuple[dict[str, str], str]:
        try:
            paths, manifest_hash = super().load_manifest()
        except ValueError:  # cut off, or of another program
            return {}, ""
        return paths, manifest_hash

    def stored_name(self, name: str) -> str:
        try:
            return str(super().stored_name(name))
        except ValueError:
            # WHITENOISE_USE_FINDERS serves it under its plain name.
            return name


def problem() -> str:
    """What is wrong with the collected files; empty if nothing is."""
    root = Path(settings.STATIC_ROOT)
    try:
        collected: dict[str, Any] = json.loads((root / "staticfiles.json").read_text())["paths"]
    except (OSError, ValueError, KeyError):
        return f"there is no {root / 'staticfiles.json'}"
    absent = [path for path in names() if not (root / collected.get(path, "?")).is_file()]
    return f"{len(absent)} are not in {root} ({absent[0]} is the first)" if absent else ""


def names() -> list[str]:
    return [path for finder in get_finders() for path, _ in finder.list([])]
