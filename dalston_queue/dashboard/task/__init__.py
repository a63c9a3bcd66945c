"""The page of one task.

read          parameters, results and deliveries; the task as the target of an action
render        the page
views         the page, and the log of each delivery
actions       cancel, requeue, dead-letter
"""
