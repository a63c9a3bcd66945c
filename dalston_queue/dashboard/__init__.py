"""The live dashboard: Django templates, htmx and one WebSocket; nothing from a CDN, no build step.

overview, from_postgres, from_redis, running_now   what is true now, as plain values, and how it is read
latest                                the newest overview of this process, shared by pages and sockets
health_line                           the same in words: is it healthy, what is stuck
history, charts                       the last hour in minute samples, and the SVG drawn from them
fragments                             overview -> named pieces of HTML, the same for the page and the socket
job_view, job_why, progress, job_fragments   the same two steps for the page of one job
job_webhooks                          how its webhooks stand, and sending one again
job_dag, job_gantt                    its pictures: what waits for what, and who ran what when
task_view, task_fragments, task_page, run_log   one task: what it was given, gave and logged
board                                 which pieces changed since a viewer last looked
hub                                   one snapshot a second per web process, for all viewers
jobs_view, jobs_fragments, jobs_views, jobs_consumer   the page of jobs, a search
stream_query, stream_view, stream_fragments, stream_views, stream_consumer   the page of one stream
task_acts, reason, back               what an operator does to one task of a stream, why, and where that leads
audit_view, audit_diff, audit_fragments, audit_views, audit_consumer   the page of the audit trail
nodes_cards, nodes_view               nodes, engines and GPUs as values: made from beats, and how they are read
nodes_fragments, nodes                their pages
nodes_order, nodes_commands           their buttons: a form read, and the command sent once and audited
nodes_logs, nodes_consumers           an engine's log, followed by all who read it; the sockets
letters_query, letters_view, letters_fragments, letters_views, letters_consumer   the page of dead letters
letter_view, letter_fragments, black_box   one dead letter, and what is left of a dead engine or of unreadable bytes
letters_orders                        which replay orders name a letter, asked once
letters_acts, letters_replay          what is done to dead letters: replay, discard, undo; replay with changes
words, places                         counted nouns, states that are bad news, addresses, for several pages
query                                 what a page's address asks for, checked; the same for its socket
pieces                                fragments as a template's context
consumers, routing                    one viewer's WebSocket
views, job_views, urls                the pages, and what their buttons do
login, origin                         the throttled login form; WebSockets only from our own pages
roles                                 what templates may show by role, and what a view refuses
healthz                               /healthz, for load balancers
csp                                   the Content-Security-Policy of every page
unavailable                           the page that says so when Postgres does not answer
"""
