"""Webhooks: signed calls to a job's callback URL, at least once.

target       which URLs may be called, pure
deliveries   checks callback URLs, claims the next delivery, decides about retries
message      the body and its signature, pure
sender       sends what is due, in threads of the orchestrator
attempt      one attempt to send one webhook
lookups      name lookups with a time limit
"""
