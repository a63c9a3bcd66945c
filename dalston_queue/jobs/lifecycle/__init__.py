"""The lifecycle of jobs and tasks.

states         every status and every allowed transition, as data; imports nothing of ours
status         the only module that changes a status: locks jobs, moves tasks and jobs by compare-and-set
transition_log a log line per task and job that moved, after the commit
transition_spans the same as spans of a trace, if traces are on
dag            the DAG of a job, pure: which stages are valid, what the tasks' states mean for the job
advance        after tasks moved: makes dependents ready, ends jobs, asks tasks to stop
dispatch       appends READY tasks to their streams
retry          the retry policy, pure: from a failed attempt to a verdict
dead_letters   ends tasks that get no further attempt
stop           removes tasks that were asked to stop from Redis and engines
"""
