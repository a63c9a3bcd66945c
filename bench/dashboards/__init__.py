"""What `./dev bench dashboard` runs: one web process over a full queue, and those who look at it.

fill.lua, fill_redis.py   waiting and pending entries, written by a script inside the server; engines, by their beats
fill_postgres.py          the same jobs and tasks as rows, some history, and dead letters
viewers.py                many WebSockets in a process of their own, with the time at which each change arrived
changes.py                changes that can be recognised on the page, and the hum of 200 engines meanwhile
measure.py                the run, and the tables made of it
"""
