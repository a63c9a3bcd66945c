"""The page of limits and weights.

read          limits with what is used of them; projects with their weights and their share of what is in flight
render        the page
views         the page; set and remove a limit, set a weight
"""
