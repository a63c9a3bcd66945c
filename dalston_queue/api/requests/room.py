"""Room for uploads: refuses one that goes beyond its project's share of the artifact store, or fills its disk.

Counted are the files that are stored and those that this process receives right now, while they come: a hundred
uploads at a time would pass a check at their begin.
"""

from __future__ import annotations

import threading
from collections import Counter
from uuid import UUID

from django.conf import settings

from dalston_queue.api.errors.problems import ApiProblem, Code
from dalston_queue.jobs.artifacts import the_store
from dalston_queue.jobs.errors import StorageFull
from dalston_queue.jobs.storage import taken_by

CHECK_BYTES = 16 * 1024 * 1024
"""Between two checks of the disk."""

_lock = threading.Lock()
_coming: Counter[UUID] = Counter()
"""Bytes of unfinished uploads, by project."""


class Room:
    """What one upload takes. `close` it when its file is stored, or is not."""

    def __init__(self, project_id: UUID) -> None:
        """Raises StorageFull if the project has no room left, ApiProblem if the disk has none."""
        self._project_id, self._taken, self._checked = project_id, 0, 0
        self._stored = taken_by(project_id)
        _check_disk()
        self.take(0)

    def take(self, size: int) -> None:
        """So many bytes more have come. Raises as `__init__`."""
        with _lock:
            _coming[self._project_id] += size
            coming = _coming[self._project_id]
        self._taken += size
        if self._stored + coming > settings.DALSTON_MAX_STORED_BYTES:
            raise StorageFull(settings.DALSTON_MAX_STORED_BYTES)
        if self._taken - self._checked >= CHECK_BYTES:
            self._checked = self._taken
            _check_disk()

    def close(self) -> None:
        global _coming  # noqa: PLW0603 - of the process
        with _lock:
            _coming[self._project_id] -= self._taken
            _coming += Counter()  # drops those with none
        self._taken = 0


def _check_disk() -> None:
    if not settings.DALSTON_ARTIFACTS_URL:  # the upload itself is refused
        return
    free = the_store().free_share()
    if free is not None and free < settings.DALSTON_MIN_FREE_DISK_RATIO:
        detail = "The disk of the artifact store is nearly full (DALSTON_MIN_FREE_DISK_RATIO). Nothing was stored."
        raise ApiProblem(507, Code.STORAGE_FULL, detail)
