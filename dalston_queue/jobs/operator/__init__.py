"""What an operator or a client does to work that exists.

cancel           cancels a job or a task
requeue          takes a running task from its engine, back to its queue
dead_letter      makes a task a dead letter
replay           replays dead letters at once, or discards them
replay_batches   replays that go slowly, or that can be undone
pause            pauses and resumes a queue
forget_node      removes a node that is gone for good
"""
