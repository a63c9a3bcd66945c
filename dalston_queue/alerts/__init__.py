"""Alerts: conditions with thresholds, evaluated by Prometheus and by us from one table.

table         each alert once: its query, what we measure for it, threshold, severity, and its runbook
runbooks      what each alert means, what to check, and which button to press
facts         what the alerts are measured from: the reading of the metrics, and the minute samples of the last minutes
measures      one function per alert: subjects and their values, from the facts; pure
decide        when an alert begins, fires and ends, pure
evaluate      evaluates the table and stores what fires; in orchestrators and housekeeping, one process at a time
notify        e-mail and webhook of what fires and ends, on a thread of its own: no receiver delays an evaluation
page          deploy/prometheus/alerts.yml and the pages in docs/, from the table
__main__      writes those files: `python -m dalston_queue.alerts`
"""
