"""Commands from the API. Each is handled once, answered, and idempotent.

handlers   one method per command
pending    commands that run for a while, checked until done or failed; the operators' intent, kept over restarts
rolling    rolling restart: one process at a time
"""
