"""Operations on queues from outside of an engine. Each takes the shards first, and has its script beside it.

append     puts attempts into their streams
cancel     removes a waiting task, asks the engine of a running one to stop
requeue    takes a task from its engine for an operator
reclaim    takes the tasks of a dead engine back; expires one that overran its time
records    what Redis knows of a task
lanes      queues and lanes: list, pause, retire, delete
lease      leadership of a role
rate       request rates
"""
