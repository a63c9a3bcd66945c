"""Keys, messages and records of the queue, and their validation. Imports nothing else of the broker but its errors.

types       priorities, tiers, causes, events, states
keys        every Redis key, and which names and ids may be part of one
messages    work entries, outcomes, events
record      the record of a live task
validate    raw replies into typed values
"""
