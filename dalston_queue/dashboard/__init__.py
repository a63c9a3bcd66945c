"""The live dashboard: Django templates, htmx and one WebSocket per page; nothing from a CDN, no build step.

A folder per page:

overview/     all at a glance: health, queues, nodes, dead letters, the latest tasks
queue/        one queue: what runs, what waits; pause and resume
jobs/         the search for jobs
job/          one job: its DAG, timeline, tasks, webhooks, history; cancel
task/         one task: parameters, results and logs; cancel, requeue, dead-letter
dead_letters/ dead letters in groups, one of them, and their replays
nodes/        nodes, engines and GPUs, their logs and commands
audit/        the audit trail

The modules of a page have the same names everywhere:

read          what the page shows, as plain values, read from Postgres and Redis
render        values -> fragments: named elements of HTML, the same for the page and its WebSocket
views         the page and its forms
actions       what its buttons do, where views would be too long
query         what its query string asks for, or the SQL of its rows

Pages stand on three packages that know no page:

live/         keeps open pages up to date: one poll per tick, and only what changed is sent
parts/        what several pages share: charts, words, requests, black boxes
security/     login, roles, origins of WebSockets, CSP

urls          the pages, their WebSockets and the navigation: a new page is a line in each

A new page with one table is its folder (`__init__`, `read`, `render`), `templates/dashboard/<page>/` (`page.html` and a
row), its lines in `urls.py`, and a test.
"""
