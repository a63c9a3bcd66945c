"""The recurring duties of the housekeeping process.

run            which duties are due, and how they are run; one process leads
report         what a run found and repaired, and its row
scanner        tasks of dead engines and past their deadline: the backstop of the judge
reconciler     makes Redis agree with Postgres
housekeeping   expiry, digest of dead letters, rows of nodes and engines, check of the audit chain
lanes          forgets lanes and queues that nothing uses
artifacts      deletes files that no job needs
samples        a sample a minute of what the pages draw a history of
"""
