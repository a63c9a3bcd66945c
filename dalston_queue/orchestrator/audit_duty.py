"""The duty that checks the newest part of the audit chain and writes its head to the log, outside of the database."""

from datetime import datetime

import structlog

from dalston_queue.audit.chain import verify
from dalston_queue.orchestrator.report import Report

log = structlog.get_logger(__name__)

CHECKED = 10_000


class AuditBroken(Exception):
    """The trail is not as it was written. The duty fails with it, and the overview says so."""


def check_audit(_now: datetime) -> Report:
    found = verify(last=CHECKED)
    log.info("audit.head", head=str(found.head), unfinished=len(found.unfinished))
    if found.problem:
        raise AuditBroken(f"{found.problem}; `manage.py verify_audit` checks all of it")
    report = Report()
    report.note("links", found.head.entries, repaired=False)
    report.note("unfinished acts", len(found.unfinished), repaired=False)
    return report
