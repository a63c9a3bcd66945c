"""The order of waiting tasks. Postgres decides it; Redis delivers a short window of each lane and tier.

A waiting task is READY. `refill` appends the next ones while the window of their lane and tier has room: those of the
project with the least in flight for its weight, of its key with the least in flight, the oldest first; within limits.

refill      fills the windows: how many, which, append, QUEUED
window      how many entries a window holds, pure
depth       how many tasks are READY, QUEUED and RUNNING in each lane and tier
waiting     which groups wait in a lane and tier, and the oldest tasks of each
share       which groups come next, pure
limits      limits of what is in flight and of starts per minute: which apply, and their token buckets
spending    what the limits still allow in one refill
withdrawal  takes entries out of windows: what has aged, and what holds a limit that a better task waits for
large       bounds what a project's large entries take in Redis
ageing      promotes tasks that have waited long to a higher tier
"""
