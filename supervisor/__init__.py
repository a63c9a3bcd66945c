"""The supervisor of a GPU node: starts engines, records why each one ended, reclaims their tasks. It needs Redis only.

apps, management/   the Django app and its commands: runsupervisor, why, fetch_model
cli                 command-line arguments of those commands, and their broker
boot                builds a supervisor: the node's lock, clean-up, logs, notify socket, Redis, main loop
supervisor          the main loop: wait, handle events, reap, let the policy decide, act, report
inbox, events       the queue at which the main loop waits, and the events that other threads post to it
config              node.yaml and the engine.yaml files: read, validated, watched for changes
process/            engine processes: slots, start and stop, exits, orphans, health checks
policy/             decisions about engines and GPUs as pure functions
gpu/                GPUs through a probe process: inventory, memory, health
logs/               engine output on its way to rotated log files, and back to readers
commands/           commands from the API: handled once, tracked until done, kept over restarts
redis_link          the thread that speaks to Redis: heartbeats, reclaims, commands, overdue tasks
spot                polls the cloud for the notice that this machine will be taken away
http                /healthz, /readyz and /metrics of the node
doctor, findings    checks of the node: Redis, clock, engines, disk, GPUs
"""
