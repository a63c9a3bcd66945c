"""Live pages: how open pages stay up to date.

fragments            the named elements that a page is made of
board                which of them changed since a viewer was last sent something
consumer             the WebSocket of every page
"""
