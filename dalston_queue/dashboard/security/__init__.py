"""Who gets in, and what a browser may do.

roles         operators only: for views and templates
middleware    Content-Security-Policy; a page of its own while Postgres does not answer
sockets       WebSockets: from our own origin only
views         the login form, throttled; /healthz and /favicon.ico, which need no login
"""
