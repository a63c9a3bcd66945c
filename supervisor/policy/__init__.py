"""Policy: decisions as pure functions of state, event and `now`. The main loop acts on them.

lifecycle    the states of one engine slot, what moves it on, restart delays and crash loops
ladder       the signals that end a process, each with its time
admission    which GPUs an engine may start on
gpu_health   Xid errors, quarantine and probation of a GPU
node         the cordon of a node on which every engine crash-loops; how far a drain is
"""
