"""Metrics for Prometheus, each declared once: docs/operate/metrics.md and the Grafana board are made from that.

declare       what a declaration is; counters, gauges and histograms of a process, and families filled at a scrape
tasks         counters and histograms of transitions, counted by the one writer of status
processes     counters of the orchestrator, housekeeping and web processes
queues        gauges of queues, tasks and workers, filled from the dashboard's snapshot
nodes         gauges of a node, filled from its supervisor's last report
reading       one reading for all gauges of a scrape: the dashboard's snapshot, and three queries of Postgres
collector     fills the families of `queues` from a reading
server        the port of a process that has no other: /metrics
web           /metrics of the web process, and who may read it
page          docs/operate/metrics.md and the Grafana board, from the declarations
__main__      writes both files: `python -m dalston_queue.metrics`

A supervisor imports `declare` and `nodes` only: neither needs Django. Keep this file free of imports.
"""
