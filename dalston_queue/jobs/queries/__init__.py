"""Queries about jobs and tasks, read only.

search        finds jobs and tasks: the same rules for the API and the page
timeline      every delivery of a task, and how it ended
ended         what ended in a span of time: how many, their waits and durations, retries by cause
progress      how far running tasks are, as their engines report it
lanes         the numbers of all lanes: what waits in Postgres with what is in Redis
queues        which of many queues are shown: the busiest, or a page by name
ready         the list of the READY tasks of a queue, by page
pace          estimates: tasks per second, time until a turn
state         since when tasks are in their state, and the keys of their requests
waits         how long tasks wait now, and what was recovered in the last hour
dead_letters  what the dead letters of a day have in common
limits        how much of each limit is used, what waits behind it
turn          when a READY task is queued: limits, shares, its queue position
why           why a task does not run: one code, one sentence
"""
