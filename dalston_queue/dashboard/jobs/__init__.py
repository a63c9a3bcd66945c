"""The page of jobs.

read          a page of the jobs that match; expensive searches rest between ticks
render, views the page: a search whose fields are its query string
"""
