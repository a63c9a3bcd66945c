"""Where calls go, and how they fail.

topology     the shards, made from their URLs; which of them holds what
shard        one Redis deployment: commands, scripts, pipelines
scripts      loads the Lua files and their includes
dedicated    a connection of its own for the calls of a session
faults       redis-py's exceptions in ours
breaker      the circuit breaker, and the backoff between tries
health       whether servers answer and are configured well
"""
