"""GPUs: what there is, what is free, what is ill. NVML itself is only ever called in a child process (probe.py)."""
