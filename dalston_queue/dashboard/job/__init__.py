"""The page of one job.

read          the job, its tasks, its history
why           why each of its tasks does not run, for all of them at once
dag, gantt    its pictures: which stage waits for which, and which engine ran what when
render, views the page; cancel
webhooks      its webhooks, and sending one again
"""
