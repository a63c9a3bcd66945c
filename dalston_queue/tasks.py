"""The periodic task that huey runs. Huey finds this file by its name (`manage.py run_huey`)."""

import structlog
from django.db import Error
from huey import crontab
from huey.contrib.djhuey import db_periodic_task

from dalston_queue.broker.errors import BrokerError
from dalston_queue.orchestrator.duties.run import run_due_duties

log = structlog.get_logger(__name__)

_away = False


@db_periodic_task(crontab())  # type: ignore[untyped-decorator]  # huey has no types
def housekeeping() -> None:
    """Each minute: the stale scanner and every other duty that is due. Of several huey processes one leads.

    Without a server the duties wait for the next minute. One line is logged when it is away, and one when it is back.
    """
    global _away  # noqa: PLW0603 - this process has one housekeeping
    try:
        run_due_duties()
    except (BrokerError, Error) as error:
        if not _away:
            log.warning("housekeeping waits for its servers", error=str(error).strip())
        _away = True
        return
    if _away:
        log.info("housekeeping goes on")
    _away = False
