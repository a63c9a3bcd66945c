"""One job.

dag, gantt           its pictures: what waits for what, and who ran what when
why                  why each of its tasks does not run, for all of them at once
webhooks             how its webhooks stand, and sending one again
"""
