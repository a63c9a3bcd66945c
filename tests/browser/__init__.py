"""Tests of the dashboard in a real Chromium, on a real web process. One file per page.

`page` is logged in as an operator, `viewer_page` and `admin_page` as a viewer and an admin; `open_page(role, …)` opens
more pages. Each starts blank, with the web process as its base: `page.goto("/")`, then `live(page)` until its
WebSocket has sent a message.
A JavaScript error or an error on the console fails the test, unless `expected_errors` names it.
`live_web` is the web process; `get_broker()` and the ORM of the test see the same Redis keys and the same database.
"""
