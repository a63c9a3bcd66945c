"""Operations on queues from outside of an engine, each with its script beside it. broker/broker.py names them all.

append      adds attempts of tasks to their streams
cancel      removes waiting tasks, asks the engine of a running one to stop
requeue     returns one running task to its queue, for an operator
reclaim     returns the tasks of a dead engine to their queues; expires a task that overran its time
records     the records of live tasks
lanes       queues and their lanes: list, pause, retire, delete
"""
