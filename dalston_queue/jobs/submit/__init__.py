"""From a client's request to rows in Postgres.

spec          specs of jobs and stages, and the pipelines that make stages in code
submit        accepts jobs, each with its tasks and its idempotency key in one transaction
rows          the statement that inserts jobs and tasks
idempotency   idempotency keys: taken, found, refused
lanes         the lanes that are submitted to: registered, within limits
storable      which JSON Postgres can store
hints         `job.created`, sent to the orchestrators after the commit
"""
