"""The live dashboard: Django templates, htmx and one WebSocket; nothing from a CDN, no build step.

overview    what is true now, read from Postgres and Redis
health      the same in words: is it healthy, what is stuck
fragments   overview -> named pieces of HTML, the same for the page and the socket
board       which pieces changed since a viewer last looked
hub         one snapshot a second per web process, for all viewers
consumers   one viewer's WebSocket
"""
