"""Security of the pages: login, roles, origins of WebSockets, Content-Security-Policy.

roles         decorators: page_view, operator_action, operator_required; the role for templates
middleware    Content-Security-Policy; the page 503 while Postgres does not answer
sockets       the origin of WebSockets; their refusal while Postgres does not answer
views         pages without a login: the throttled login form, /favicon.ico
"""
