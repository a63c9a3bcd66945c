"""The questions of `./dev bench broker`, each a table with its targets.

throughput.py   no-op tasks per second of one process, 1 and 32 at a time
latency.py      from enqueue to start on an idle worker
survival.py     a worker gets SIGKILL while a task runs
depth.py        a claim and a snapshot of a very long queue; Redis bytes per waiting task, and what is left of them
"""
