"""What `./dev bench api` runs: two web processes, and the load on them.

load.py     sends requests over kept-alive connections, in a process of its own
web.py      starts one uvicorn, as in production, on a database of its own
bare/       the yardstick: a project as `startproject` makes it, with one django-ninja view that inserts one row
rounds.py   the rounds, and the table made of them
batch.py    POST /jobs:batch
"""
