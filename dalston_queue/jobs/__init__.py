"""Jobs and tasks in Postgres: every action on them that is allowed, and every question about them.

submit/      from a client's request to rows
lifecycle/   states, the only writer of a status, and what follows from each move
operator/    what an operator or a client does to work that exists
queries/     read only: search, timeline, progress, pace, why
webhooks/    calls to a job's callback URL
errors       what can be wrong with a request, as one tree
"""
