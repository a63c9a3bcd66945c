"""Journeys through the dashboard in a real Chromium, on a real web process. One file per page.

`page` is logged in as an operator, `viewer_page` and `admin_page` as those; `open_page(role, …)` makes more of them.
Each starts blank, with the web process as its base: `page.goto("/")`, then `live(page)` until the socket speaks.
A JavaScript error or an error on the console fails the test, unless `expected_errors` names it.
`live_web` is the web process; `get_broker()` and the ORM of the test see the same Redis keys and the same database.
"""
