"""The overview: health, queues, nodes, dead letters, the latest tasks.

values        what the page shows, as plain values
from_postgres what is read from Postgres
from_redis    what is read from Redis
read          the latest overview of this process, shared by pages and WebSockets
health        the overview in sentences: what is wrong, what is stuck
figures       the last hour in figures: throughput, failures, waits, durations, ages, retries, utilisation
render        the page
terminal      the same for a terminal, and as a document: manage.py status
"""
