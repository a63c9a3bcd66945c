"""Health of a process: /healthz says whether it is alive, /readyz whether it can work (docs/operate/health.md).

report   checks, their threads and deadlines, and the two answers; a leaf
loops    when each loop last came round; a leaf
watchdog tells systemd that the process is alive; a leaf
outages  a log line when Postgres or Redis goes away, and one when it is back
servers  the checks of a server process: Postgres, migrations, Redis, events
"""
