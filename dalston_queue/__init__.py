"""Dalston's queue: the broker on Redis, jobs in Postgres, and the API, dashboard and orchestrator on top of both.

broker/, redis                        the protocol in Redis, and this process's connection to it
models/, migrations/, ids             the tables, and their time-ordered ids
jobs/                                 what may happen to jobs and tasks
orchestrator/, tasks                  what makes it happen; what huey runs
api/, pooled                          the REST API; waiting without a database connection
dashboard/                            the live pages
admin/, admin_site, admin_config      Django's admin, entered by role
roles, role_permissions, login_throttle, tokens   who may do what, by login or by token
audit, audit_chain, audit_trail, audit_export   what operators did: written, checked, read, exported
metrics, durations                    the queue's numbers for Prometheus; a time span in words
management/, apps, crash_points       commands, the Django app, and a hook for tests that kill a process

Keep this file free of imports: engines and supervisors use `dalston_queue.broker` without Django.
"""
