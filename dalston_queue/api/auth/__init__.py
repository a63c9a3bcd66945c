"""Authentication, scopes, rate limits and backpressure.

bearer        tokens and sessions, the scopes that open a route, rate limits
principal     the caller: a token of one project, or a logged-in person
backpressure  refuses submissions to a queue that is too full
"""
