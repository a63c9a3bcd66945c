"""The page of the audit trail.

read          the actions that match the query string, and what each changed
render        the page, and its rows for job/ and dead_letters/
views         the page, and its exports as CSV and JSON lines
"""
