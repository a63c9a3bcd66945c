"""Actions of an operator or a client on work that exists.

cancel           cancels a job or a task
task             requeues a running task, or makes a task a dead letter
replay           replays dead letters at once, or discards them
replay_batches   replays of dead letters that are paced or can be undone
pause            pauses and resumes a queue
limits           sets and removes limits and the weights of projects
delete           deletes jobs that are over
forget_node      removes a node that is gone for good
"""
