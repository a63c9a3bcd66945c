"""What routes take and answer, in and out of one noun together.

base           strict bodies, times, ids, reasons, pages by cursor
tasks, jobs    submissions, and tasks and jobs as they are shown; a job's webhook deliveries
dead_letters   filters and replays, dead letters and replay batches as they are shown
queues, nodes  numbers of queues and lanes, pause and resume; nodes, engines, commands
scale, limits  the load of lanes; limits and weights
workers        the worker protocol
transcriptions the form of a new one, and one as it is shown
"""
