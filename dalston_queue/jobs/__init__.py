"""Jobs and tasks in Postgres: every allowed action on them, and every query about them.

submit/      from a client's request to rows
lifecycle/   states, transitions, and what follows from each; only `lifecycle/status.py` changes a status
order/       which task comes next: windows, shares, limits, ageing
operator/    actions on existing work: cancel, requeue, dead-letter, replay, pause, limits
queries/     read only: search, timeline, progress, pace, why
webhooks/    calls to a job's callback URL
storage      what the files of each project take in the artifact store
artifacts    which files of the artifact store each job needs
errors       the exception tree
"""
