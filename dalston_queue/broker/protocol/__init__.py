"""What travels, and under which names. Imports nothing else of the broker but its errors.

types       priorities, tiers, causes, events, states
keys        every Redis key
names       which names and ids are allowed
messages    work entries, outcomes, events
record      the record of a live task
validate    raw replies into typed values
moments     milliseconds as a datetime
"""
