"""The page of one queue.

query         the query string: order, lane, engine, page
read          running tasks (the PEL), waiting tasks, the pause
render        the page
views         the page; pause and resume
"""
