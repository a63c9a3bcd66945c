"""The orchestrator: consumes events, advances jobs, dispatches, schedules, recovers. Any number may run.

loop         the loop of each process: read events, apply, commit, acknowledge; poll once a second
batch        a batch of events: splits off the one that can't be applied
inbox        events that were read and are not applied yet: projects take turns in it
chunks       how much of them one transaction takes, so that a large job holds up no other
apply        applies the events of a batch in one transaction
data_loss    notices that Redis has lost its data, and puts it back
scheduler    makes due tasks ready, submits the jobs of schedules
leadership   which process leads
recovery     the leader reclaims the work of dead engines
judge        decides which engine is dead, pure
deadlines    ends tasks that ran for too long; those of workers over HTTP within seconds
duties/      the recurring duties of the housekeeping process
"""
