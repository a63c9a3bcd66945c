"""Who gets in, and what a browser may do with a page.

login, roles         the throttled login form; what templates may show by role, and what a view refuses
origin, csp          WebSockets only from our own pages; the Content-Security-Policy
healthz, unavailable, favicon   /healthz, the page that says that Postgres doesn't answer, and the icon
"""
