"""Retention of artifacts: deletes files that no kept job refers to, and files that were stored and never reported.

Of the store one 256th is read each minute: after four hours and a quarter it was read once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from django.conf import settings

from dalston_queue.artifacts import Store
from dalston_queue.jobs.artifacts import the_store, unneeded
from dalston_queue.models import JobArtifact
from dalston_queue.orchestrator.duties.report import Report

BATCH = 1000
PARTS = 256


def delete_unneeded(now: datetime) -> Report:
    """Delete the files of deleted jobs, orphans, and what broken uploads left."""
    report = Report()
    if not settings.DALSTON_ARTIFACTS_URL:
        return report
    store = the_store()
    report.note("files of deleted jobs", _released(store))
    report.note("orphans", _orphans(store, int(now.timestamp() // 60) % PARTS))
    report.note("unfinished files", store.clean_up(settings.DALSTON_ARTIFACT_ORPHAN_S))
    return report


def _released(store: Store) -> int:
    """Those that are too young wait for a later run."""
    count, after = 0, 0
    while rows := list(JobArtifact.objects.filter(job__isnull=True, pk__gt=after).order_by("pk")[:BATCH]):
        after = rows[-1].pk
        free = unneeded({row.ref for row in rows})
        deleted = {ref for ref in free if store.delete(ref, settings.DALSTON_ARTIFACT_GRACE_S)}
        done = [row.pk for row in rows if row.ref not in free or row.ref in deleted]
        JobArtifact.objects.filter(pk__in=done, job__isnull=True).delete()
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
