"""Requests that wait: long polls and server-sent events.

waiting     slots for waiting requests; whether a client has disconnected
long_poll   `?wait=`: until a task or a job is over
stream      one subscription as server-sent events
job_events  what a poll reads, for all subscriptions of a process
changes     what happened to jobs since a cursor, in two statements
subscriber  the token or login behind a subscription, and whether it is still valid
"""
