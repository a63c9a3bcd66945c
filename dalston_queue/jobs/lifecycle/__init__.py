"""The lifecycle of jobs and tasks.

states         every status and every allowed transition, as data; imports nothing of ours
status         the only writer of a status: locks jobs, moves tasks and jobs by compare-and-set
dag            the shape of a job, pure: which stages are allowed, what the tasks' states mean for the job
advance        after tasks moved: makes dependents ready, ends jobs, asks tasks to stop
dispatch       READY tasks into their streams
retry          the retry policy, pure: what a failed attempt leads to
dead_letters   the end of a task that gets no further attempt
stop           takes tasks that were asked to stop from Redis and engines
"""
