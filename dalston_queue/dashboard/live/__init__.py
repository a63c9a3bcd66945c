"""Live pages: how open pages stay up to date.

fragments     the named elements of a page, and which of them changed since a viewer was last sent something
consumer      the WebSocket of every page
views         the view of a page that is nothing but its fragments
"""
