"""Tests of the dashboard: a folder per page and per package that pages stand on, as in `dalston_queue/dashboard`.

conftest      `viewer` and `operator`: logged-in clients; `running`: a running task; every request reads anew
people        logs more people in
running       a running task, and the notice after an action
sockets       a page's WebSocket on the real web process
"""
