"""Webhooks: signed calls to a job's callback URL, at least once.

target       which URLs may be called, pure
deliveries   who may have a webhook, which one is due, when a failed one is sent again
message      the body and its signature, pure
sender       sends what is due, in threads of the orchestrator
attempt      one attempt to send one webhook
lookups      name lookups with a time limit
"""
