"""The live dashboard: Django templates, htmx and one WebSocket per page; nothing from a CDN, no build step.

A folder per page:

account/      the user's own password
alerts/       what fires, and the runbook of each alert
overview/     health, queues, nodes, dead letters, the latest tasks
transcriptions/ drop recordings; the list of transcriptions
transcription/  one transcription: player, waveform, transcript, downloads
queue/        one queue: running tasks (the PEL) and waiting tasks; pause and resume
jobs/         the search for jobs
job/          one job: its DAG, timeline, tasks, webhooks, history; cancel
task/         one task: parameters, results and logs; cancel, requeue, dead-letter
dead_letters/ dead letters in groups, one of them, and their replays
limits/       limits and weights, and what is used of them
nodes/        nodes, engines and GPUs, their logs and commands
audit/        the audit trail
sign_in/      sign-in by an OpenID Connect provider
tokens/       API tokens: made, shown once, revoked

The modules of a page have the same names everywhere:

read          what the page shows, as plain values, read from Postgres and Redis
render        values -> fragments: named elements of HTML, the same for the page and its WebSocket
views         the page and its forms
actions       what its buttons do, where views would be too long
query         its query string, or the SQL of its rows

Pages stand on three packages that know no page:

live/         keeps open pages up to date: one poll per tick, and only what changed is sent
parts/        what several pages share: charts, words, requests, black boxes
security/     login, roles, origins of WebSockets, CSP

urls          the pages, their WebSockets and the navigation: a new page is a line in each

A new page with one table is seven files: a module beside this one that reads and renders it, its line in the map above,
its lines in `urls.py`, `page.html` and a row in `templates/dashboard/<page>/`, a test, and its row in
`docs/dashboard.md`. It gets a folder when it needs more than one module.
"""
