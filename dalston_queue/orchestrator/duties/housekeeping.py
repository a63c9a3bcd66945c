"""Small duties: expiry, digest of dead letters, rows of nodes and engines, check of the audit chain."""

from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.db.models import Count, Max, Min

from dalston_queue.audit.chain import verify
from dalston_queue.broker.nodes.registry import EngineInfo, NodeInfo
from dalston_queue.broker.protocol.validate import moment
from dalston_queue.jobs.operator.delete import delete_jobs
from dalston_queue.jobs.order.ageing import promote_aged
from dalston_queue.jobs.queries.dead_letters import EXAMINED, NEW
from dalston_queue.models import AlertState, DeadLetter, Engine, IdempotencyKey, LoginAttempt, Node, ReplayBatch
from dalston_queue.models.dead_letter import OPEN
from dalston_queue.orchestrator.duties.report import Report
from dalston_queue.redis import get_broker

BATCH = 1000


def promote_tasks(now: datetime) -> Report:
    """Promote tasks that waited long to a higher priority."""
    report = Report()
    for lane, count in promote_aged(now).items():
        report.note(lane, count)
    return report


# A job whose dead letter is still open is kept with it.
_OLD_JOBS = """
    SELECT j.id FROM dalston_job j
    WHERE j.finished_at < %s AND NOT EXISTS (
        SELECT FROM dalston_task t JOIN dalston_dead_letter d ON d.task_id = t.id
        WHERE t.job_id = j.id AND d.replayed_at IS NULL AND d.discarded_at IS NULL
    )
    ORDER BY j.finished_at LIMIT %s FOR UPDATE SKIP LOCKED"""


def delete_expired(now: datetime) -> Report:
    """Delete expired dead letters, replay batches, login attempts, sessions, idempotency keys, and finished jobs with
    their history."""
    report = Report()
    long_ago = now - timedelta(days=settings.DALSTON_DEAD_LETTER_DAYS)
    report.note("dead letters", DeadLetter.objects.filter(created_at__lt=long_ago).delete()[0])
    report.note("alerts", AlertState.objects.filter(ended_at__lt=long_ago).delete()[0])
    report.note("replay batches", ReplayBatch.objects.filter(finished_at__lt=long_ago).delete()[0])
    report.note("login tries", LoginAttempt.objects.filter(at__lt=now - timedelta(days=1)).delete()[0])
    report.note("sessions", Session.objects.filter(expire_date__lt=now).delete()[0])
    report.note("idempotency keys", IdempotencyKey.objects.filter(expires_at__lt=now).delete()[0])
    while deleted := _delete_jobs(now - timedelta(days=settings.DALSTON_HISTORY_DAYS)):
        report.note("jobs", deleted)
    return report


@transaction.atomic
def _delete_jobs(before: datetime) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_OLD_JOBS, [before, BATCH])
        jobs = [row[0] for row in cursor.fetchall()]
    if jobs:
        delete_jobs(jobs)
    return len(jobs)


def digest_dead_letters(now: datetime) -> Report:
    """Group the open dead letters of the last day by fingerprint, the largest group first, and count new patterns."""
    report = Report()
    recent = DeadLetter.objects.filter(OPEN, created_at__gte=now - timedelta(days=1))
    newest = recent.order_by("-created_at", "-id").values("pk")[:EXAMINED]
    patterns = (
        DeadLetter.objects.filter(pk__in=newest)
        .values("fingerprint", "queue", "cause")
        .annotate(count=Count("id"), first=Min("created_at"), example=Max("error"))
    )
    for pattern in patterns.order_by("-count")[:20]:
        name = f"{pattern['queue']}: {pattern['cause']}: {pattern['example'][:80]}"
        report.note(name, pattern["count"], repaired=False)
        if pattern["first"] > now - NEW:
            report.note("new patterns in the last hour", repaired=False)
    return report


def mirror_registry(now: datetime) -> Report:
    """Copy nodes and engines from Redis to rows, which outlive their heartbeats."""
    registry = get_broker().registry
    report = Report()
    nodes, engines = registry.nodes(), registry.engines()
    Node.objects.bulk_create(
        [_node(node, now) for node in nodes],
        update_conflicts=True,
        unique_fields=["id"],
        update_fields=["state", "facts", "last_seen_at"],
    )
    Engine.objects.bulk_create(
        [_engine(engine, now) for engine in engines],
        update_conflicts=True,
        unique_fields=["id"],
        update_fields=["node_id", "state", "queues", "capabilities", "capacity", "facts", "last_seen_at"],
    )
    report.note("readers of dead orchestrators", get_broker().forget_idle_readers())
    report.note("nodes", len(nodes), repaired=False)
    report.note("engines", len(engines), repaired=False)
    long_ago = now - timedelta(days=settings.DALSTON_HISTORY_DAYS)
    report.note("forgotten engines", Engine.objects.filter(last_seen_at__lt=long_ago).delete()[0])
    report.note("forgotten nodes", Node.objects.filter(last_seen_at__lt=long_ago).delete()[0])
    return report


def _node(node: NodeInfo, now: datetime) -> Node:
    seen = moment(node.at_ms)
    return Node(id=node.node_id, state=node.state, facts=node.info, first_seen_at=now, last_seen_at=seen)


def _engine(engine: EngineInfo, now: datetime) -> Engine:
    return Engine(
        id=engine.engine_id,
        node_id=engine.node_id,
        state=engine.state,
        queues=list(engine.queues),
        capabilities=list(engine.capabilities),
        capacity=engine.capacity,
        facts=engine.info,
        first_seen_at=now,
        last_seen_at=moment(engine.at_ms),
    )


log = structlog.get_logger(__name__)

CHECKED_LINKS = 10_000


class AuditBroken(Exception):
    """The audit trail was changed. The duty fails with it, and the overview shows that."""


def check_audit(_now: datetime) -> Report:
    found = verify(last=CHECKED_LINKS)
    log.info("audit.head", head=str(found.head), unfinished=len(found.unfinished))
    if found.problem:
        raise AuditBroken(f"{found.problem}; `manage.py verify_audit` checks all of it")
    report = Report()
    report.note("links", found.head.entries, repaired=False)
    report.note("unfinished actions", len(found.unfinished), repaired=False)
    return report
