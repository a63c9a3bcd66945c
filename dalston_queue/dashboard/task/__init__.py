"""The page of one task.

read          parameters, results, deliveries; and the task as an operator would act on it now
render, views the page, and the log of each delivery
actions       cancel, requeue, dead-letter
"""
