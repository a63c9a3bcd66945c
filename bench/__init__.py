"""Benchmarks: Dalston and other queues in one run on one private server. `./dev bench NAME` starts one.

abuse, api, broker, dashboard, order, pipeline, recovery, sizing, transcription   one benchmark each
subjects/   the parts of `broker`: throughput, latency, survival, depth
peers/      the measured queues, one file each
attacks/    what one client does to the others in `abuse`
harness/    servers, processes, load and tables that the benchmarks share
bare/       a minimal Django project, for comparison with the API
"""
