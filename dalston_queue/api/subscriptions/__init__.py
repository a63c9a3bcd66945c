"""Requests that wait.

waiting     slots for waiting requests, and whether a client has gone
long_poll   `?wait=`: until a task or a job is over
stream      server-sent events of one subscriber
poller      one reader per process for all streams
changes     what happened to jobs since an event id, in two statements
subscriber  who subscribes to a job, and whether the token or login is still valid
"""
