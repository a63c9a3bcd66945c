"""Shared by the benchmarks: servers, processes, load, figures.

run.py           command line of a benchmark; one run with its sections
figures.py       rounds, ratios of rounds beside each other, targets, tables
servers.py       private Valkey and Postgres of a run
processes.py     processes of the peers and their environment `.venv.bench`; CPU time, cores
web.py           one uvicorn process, and the requests sent to it
installation.py  a whole installation for a round: database from a template, web process, orchestrator, engine
fleet.py         real supervisors with engines made for the run; light_engine.py is the smallest of these
full_queue.py    a full queue in Redis (by fill.lua) and its rows in Postgres, for the dashboard
changes.py       marked changes that the dashboard has to show, and the load meanwhile
viewers.py       WebSockets on the dashboard's pages, in a process of their own
"""
