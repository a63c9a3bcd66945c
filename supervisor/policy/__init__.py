"""Decisions as pure functions of state, event and `now`. The main loop acts on them.

lifecycle    the states of one engine slot, and what moves it on
ladder       the signals that end a process, each with its time
restart      restart delay and crash loop
admission    which GPUs an engine may start on
gpu_health   Xid errors, quarantine and probation of a GPU
node_health  cordons a node on which every engine crash-loops
draining     how far a drain is and when it ends at the latest
"""
