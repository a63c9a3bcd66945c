"""GPUs of the node. NVML is only ever called in a child process, so a hung driver hangs nothing else.

probe     the child process that calls NVML and prints one reading per line
reading   a reading: devices, memory, Xid errors
monitor   starts the probe, reads it, kills it when the driver hangs
gpus      admission and health of the GPUs, as the fleet uses them
"""
