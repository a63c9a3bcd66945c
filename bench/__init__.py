"""Benchmarks: Dalston and other queues in one run on one private server. `./dev bench NAME` starts one.

api, broker, dashboard, pipeline, recovery   one benchmark each
subjects/   the parts of `broker`: throughput, latency, survival, depth
peers/      the measured queues, one file each
harness/    servers, processes, load and tables that the benchmarks share
bare/       a minimal Django project, for comparison with the API
"""
