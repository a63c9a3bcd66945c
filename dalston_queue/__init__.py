"""Dalston's queue: the broker on Redis, jobs in Postgres, and the API, dashboard and orchestrator on top of both.

Keep this file free of imports: engines and supervisors use `dalston_queue.broker` without Django.
"""
