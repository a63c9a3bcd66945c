"""The page of one queue.

query         the query string: order, lane, engine, pages
read          running tasks (the PEL), the pause, and all that the page shows
waiting       waiting tasks: those of the windows, and those in Postgres
render        the page
views         the page; pause and resume
"""
