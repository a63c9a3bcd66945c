"""Django's admin for our tables. Rows that the lifecycle owns are shown and never edited here.

base         read-only rows, bounded lists, changes on record
work         jobs, tasks, dead letters, replay batches, schedules, webhook deliveries
operations   the audit trail, duties, leaders, nodes, engines
limit        limits
api_token    projects and their tokens
user         users and their roles
"""

from dalston_queue.admin import api_token, limit, operations, user, work

__all__ = ["api_token", "limit", "operations", "user", "work"]  # importing them registers their pages
