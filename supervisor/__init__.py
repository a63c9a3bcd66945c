"""The supervisor of a GPU node: starts engines, knows why each one ended, gives their work back. Needs Redis only.

apps, boot, lock, places, broker      the Django app; puts a supervisor together, one per node
supervisor, inbox, happenings         its one loop, what that waits for, and what other threads tell it
config, reload, environment           node.yaml, its changes, and what an engine finds in its environment
fleet, slot, children, rolling        the engines: their places and processes, and every act on them
policy/                               what is decided, pure
exits, cgroup, blackbox, why          why an engine ended or is as it is, with evidence
notices, probes, usage                what engines say of themselves, what is checked, what they use
gpu/                                  GPUs through a probe process
link                                  the line to Redis: beats, give-backs, commands
orders, undertakings, intent          commands: obeyed once, watched until done, kept over restarts
relay, pipes                          the engines' output, taken by a process of its own so that no engine waits
logs, intake, rotation, logreader, follow   made into logs, rotated, read again, sent to whoever asks
statefile, orphans, linux             what a killed supervisor leaves, and how it is found and ended
spot, http, checkup                   the cloud's notice to leave; the node's own port; what works on this node
"""
