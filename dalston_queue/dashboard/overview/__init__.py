"""All at a glance.

values, from_postgres, from_redis, running_now   what is true now, and how it is read
latest               the newest of it in this process, shared by pages and sockets
health_line          the same in words: is it healthy, what is stuck
"""
