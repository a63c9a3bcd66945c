"""From a client's request to rows in Postgres.

spec            what a client asks for: a job and its stages
pipelines       named pipelines in code: from parameters to stages
submit          accepts jobs, each with its tasks and its idempotency key in one transaction
rows            the statement that stores them
idempotency     idempotency keys: taken, found, refused
storable, nul   values as the JSON that Postgres can store
hints           `job.created`, sent to the orchestrators after the commit
"""
