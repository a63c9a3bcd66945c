"""How open pages stay up to date.

hub                  one snapshot a second per web process, for all viewers of a page
board                which pieces changed since a viewer last looked
html, pieces         rendering them, and putting them into a page
consumer             one viewer's WebSocket
"""
