"""Artifacts: counts what projects store, and deletes files that no kept job refers to, or that were never reported.

Of the store one 256th is read each minute: after four hours and a quarter it was read once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from django.conf import settings

from dalston_queue.artifacts import ArtifactMissing, Store
from dalston_queue.jobs.artifacts import the_store, unneeded
from dalston_queue.jobs.storage import Reference, count_rows, forget_rows, uncounted
from dalston_queue.models import JobArtifact
from dalston_queue.orchestrator.duties.report import Report

BATCH = 1000
PARTS = 256
COUNT_S = 20.0
"""The longest time of one run for counting: each size of a result is a call of S3."""


def count_and_delete(now: datetime) -> Report:
    """Count new files; delete those of deleted jobs, orphans, and what broken uploads left."""
    report = Report()
    if not settings.DALSTON_ARTIFACTS_URL:
        return report
    store = the_store()
    report.note("references counted", _counted(store), repaired=False)
    report.note("files of deleted jobs", _released(store))
    report.note("orphans", _orphans(store, int(now.timestamp() // 60) % PARTS))
    report.note("unfinished files", store.clean_up(settings.DALSTON_ARTIFACT_ORPHAN_S))
    return report


def _counted(store: Store) -> int:
    """What remains after COUNT_S is counted by the next run."""
    count, end = 0, time.monotonic() + COUNT_S
    while time.monotonic() < end and (rows := uncounted(BATCH)):
        sizes: dict[str, int] = {}
        for row in rows:
            if row.ref not in sizes:
                if time.monotonic() >= end:
                    break
                sizes[row.ref] = _size(store, row)
        known = [row for row in rows if row.ref in sizes]
        count_rows(known, sizes)
        count += len(known)
    return count


def _size(store: Store, row: Reference) -> int:
    if row.size is not None:
        return row.size
    try:
        return store.size(row.ref)
    except ArtifactMissing:  # a client's task returned a reference that it made up
        return 0


def _released(store: Store) -> int:
    """Those that are too young wait for a later run."""
    count, after = 0, 0
    while rows := list(JobArtifact.objects.filter(job__isnull=True, pk__gt=after).order_by("pk")[:BATCH]):
        after = rows[-1].pk
        free = unneeded({row.ref for row in rows})
        deleted = {ref for ref in free if store.delete(ref, settings.DALSTON_ARTIFACT_GRACE_S)}
        forget_rows([row for row in rows if row.ref not in free or row.ref in deleted])
        count += len(deleted)
    return count


def _orphans(store: Store, part: int) -> int:
    count = 0
    found = store.untouched(part, settings.DALSTON_ARTIFACT_ORPHAN_S)
    for refs in _batches(found):
        # A row without a job is _released's: its file has a shorter time.
        count += sum(store.delete(ref, settings.DALSTON_ARTIFACT_ORPHAN_S) for ref in unneeded(refs))
    return count


def _batches(refs: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(refs, BATCH)):
        yield batch
