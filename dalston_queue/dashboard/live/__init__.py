"""Live pages: how open pages stay up to date.

fragments     the named elements of a page, and which of them changed
consumer      the WebSocket of every page
views         the view of a page that has only fragments
"""
