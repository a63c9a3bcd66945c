"""The page of one job.

read          the job, its tasks and their deliveries, its history
why           why each task does not run, for all tasks at once
dag, gantt    two pictures: the DAG, and the timeline of deliveries
render        the page
views         the page; cancel
webhooks      its webhooks, and sending one again
"""
