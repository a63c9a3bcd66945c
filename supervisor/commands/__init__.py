"""Commands from the API. Each is handled once, answered, and harmless when sent twice.

handlers   one method per command
pending    commands that run for a while, checked until done or failed; what operators want, saved over restarts
rolling    rolling restart: one process at a time
"""
