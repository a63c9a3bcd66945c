"""Dalston's queue: the broker on Redis, jobs in Postgres, and the API, dashboard and orchestrator on top of both.

broker/            the protocol in Redis: streams, Lua scripts, leases, heartbeats; no Django
artifacts/         files by the digest of their content, in a folder or in S3; no Django
models/            the tables; migrations/ makes them
jobs/              jobs and tasks in Postgres: submit, lifecycle, operator's actions, queries, webhooks
orchestrator/      advances jobs by events, schedules, recovers; the duties of housekeeping
api/               the REST API
dashboard/         the live pages
metrics/           metrics for Prometheus, each declared once
tracing/           OpenTelemetry spans of jobs
health/            /healthz, /readyz and watchdog of every process
alerts/            conditions with thresholds, for Prometheus and for us
admin/             Django's admin; admin_site opens it by role
accounts/          roles, tokens, throttled logins
audit/             the audit trail: written, read, exported, verified
transcription/     speech in, transcript out: what is asked for, its state, its formats
pipelines          the pipelines of this app
management/        commands
redis, database    the broker of this process; database connections and their errors
slots              slots that many share, with a share for each
turns              which requests of a web process work at a time: holders take turns
garbage            collections that do not read what was imported at the start
polling            one poll for all subscribers of a key
task_log           log lines of tasks: many in one record
ids                time-ordered ids
addresses, pinned  which URLs of clients may be called, and the connection to a checked address
defaults           values of settings that engines share
tasks              the periodic task that huey runs
apps, crash_points the Django app, and a hook for tests that kill a process

Keep this file free of imports: engines and supervisors use `dalston_queue.broker` without Django.
"""
