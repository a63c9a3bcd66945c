"""Connections to Redis: which server a call goes to, and how it fails.

topology     the shards, made from their URLs: which of them holds what, and whether they are healthy
shard        one Redis deployment: commands, scripts, pipelines, and the dedicated connection of a session
scripts      loads the Lua files and their includes
faults       redis-py's exceptions translated into ours
breaker      the circuit breaker, and the backoff between tries
"""
