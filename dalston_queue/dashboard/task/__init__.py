"""The page of one task.

read          parameters, results and deliveries; the task as the target of an action
render        the page
lines         the log lines of all processes about the task
views         the page, its log lines, and the log of each delivery
actions       cancel, requeue, dead-letter
"""
