"""Moves jobs on: consumes events, dispatches, schedules, recovers, keeps house. Any number of processes may run it.

loop, polling                         the loop of each process, and what it looks for once a second
batch, apply, database                a batch of events: applied in one transaction, the bad one isolated
scheduler                             makes tasks ready whose time has come; in each process, too
leadership, recovery, judge           who leads, and what the leader does about dead engines
webhooks, webhook_claims,             sends what is due, in threads beside the loop
  webhook_sending, lookups
duties, report                        the recurring duties of the housekeeping process, and what each run did
housekeeping, samples, audit_duty     some of those: expiry and ageing, minute samples, the audit chain
reconciler, discrepancy, scanner      and two more: Redis made to agree with Postgres; the last net under the judge
counters                              what this process has counted, for its /metrics
"""
