"""The page of jobs.

read          a page of the jobs that match; an expensive search is not repeated each tick
render        the page
views         the page: a search whose fields are its query string
"""
