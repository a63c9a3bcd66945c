"""Moves jobs on: consumes events, dispatches, schedules, recovers. Any number of processes may run it.

loop          the loop of each process: read events, apply, commit, acknowledge
batch, apply  a batch of events: applied in one transaction, the one that fails isolated
polling       once a second: work whose hint was lost, or whose process died between two steps
scheduler     tasks whose time has come, and the jobs of schedules
leadership    which process leads
recovery      the leader reclaims the work of dead engines
judge         which engine is dead, pure
counters      what this process has counted, for its /metrics
duties/       the recurring duties of the housekeeping process
"""
