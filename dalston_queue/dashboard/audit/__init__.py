"""The page of the audit trail.

read          the actions that match the query string, and what each changed
render        their rows; job/ and dead_letters/ show the same
views         the page, and its exports as CSV and JSON lines
"""
