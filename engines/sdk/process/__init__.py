"""The process of an engine: claims tasks, runs them in threads, settles them, and reports to its supervisor.

serve       from start to exit code, under a supervisor or alone
identity    id, node and Redis of this process, from its environment
runner      the main loop: claims, settles, renews and releases, in one thread
slots       the tasks that the engine holds: running, and prefetched
workers     the threads that run tasks, and the waiter that sleeps at Redis
settlement  an author's outcome as a message to the broker, and as what the circuit breaker counts
report      reports of tasks, progress and health to the supervisor
health      answers the probe of the supervisor
"""
