"""Live pages: how open pages stay up to date.

fragments     the named elements of a page, which of them changed, and the view of a page that has nothing else
consumer      the WebSocket of every page
"""
