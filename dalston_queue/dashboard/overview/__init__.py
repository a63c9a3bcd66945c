"""The overview: all at a glance.

values        what it shows, as plain values
from_postgres, from_redis   how they are read
read          the latest overview of this process, shared by pages and sockets
health        the same in sentences: what is wrong, what is stuck
render        the page
"""
