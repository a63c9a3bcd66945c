"""The live dashboard: Django templates, htmx and one WebSocket; nothing from a CDN, no build step.

A folder for each page, with what it shows, how that is read, drawn and pushed, and what its buttons do:

overview/     all at a glance, and the health line: is it healthy, what is stuck
stream/       one queue: what engines hold, the front of the line, the brake
jobs/         the search for jobs
job/          one job: its DAG, timeline, tasks, webhooks, history
task/         one task: what it was given, gave and logged; cancel, hand back, dead-letter
letters/      dead letters, one of them, and their replays
nodes/        nodes, engines and GPUs, their logs and commands
audit/        the audit trail

In a page's folder, a file's name says what it does:

values        what the page shows, as plain values, and how it is read
query         what its address asks for, or how its rows are found
fragments     values -> named pieces of HTML, the same for the page and the socket
views         the page at its address
consumer      its WebSocket
acts, ...     its buttons

A page that shows what another page is about takes it from that page's folder: the stream its health and lanes from
overview/ and the panel of buttons from task/, a job and a dead letter the rows of audit/, a dead letter its job's
history, a job the orders to replay its letters, a task the lines of its node's log.

And what all of them stand on, which knows none of them:

live/         keeps open pages up to date: one snapshot a second, and only what changed is sent
parts/        what several pages share: charts, words, addresses, forms
door/         who gets in and what a browser may do: login, roles, origins, CSP; and when nothing works

urls and routing join them: addresses of pages, addresses of WebSockets.
"""
