"""Jobs and tasks in Postgres: the states, the only writer of status, submit, dispatch, DAG, retry, cancel, replay.

states, lifecycle, drawing            every legal move as data, the only writer of status, and the picture of both
spec, rows, submit                    what a client asks for, on its way into the tables
idempotency, hints                    the key that a submission takes; the hint to the orchestrators
dag, pipelines, expand                the shape of a job: checked, named in code, grown by a stage's result
dispatch, advance                     READY tasks into their streams; what follows from a task that moved
retry, dead_letters, fingerprint      what a failed attempt means, and the end of a task that gets no other
replay, replay_batches                 dead letters taken back: at once; later, slowly, and undone while it can be
cancel, stop, requeue, dead_letter    what a client or an operator does to a task that is not over
pause, nodes                          the same for a queue, and for a node that is gone for good
recurring, cron                       a job at each tick of a schedule
webhooks, webhook_target, webhook_message   who may have one, where it may go, what it says
search, timeline, progress, why       read only: finding, what became of each attempt, how far, why not yet
pace                                  estimates: how fast a line gets shorter, when somebody's turn comes
errors, storable, nul                 what can be wrong with a request
"""
