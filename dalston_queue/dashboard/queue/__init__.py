"""The page of one queue.

query         order, lane, engine and page that its query string asks for
read          what runs (the PEL), what waits, whether it is paused
render        the page
views         the page; pause and resume
"""
