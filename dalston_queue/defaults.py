"""Defaults of the settings that engines share. A leaf without imports: an engine has no Django settings.

`dalston_site/settings.py` declares the settings with these values. A supervisor passes its values to its engines; an
engine without a supervisor uses these, unless its environment sets others.
"""

REDIS_PREFIX = "dalston"
HEARTBEAT_S = 5.0
BREAKER_FAILURES = 5
BREAKER_OPEN_S = 60.0
BREAKER_TRIALS = 3
MAX_RESULT_BYTES = 262_144
STALE_THRESHOLD_MS = 600_000
MAX_DELIVERIES = 3
MAX_DELIVERIES_NODE_LOST = 10
ENGINE_THREADS = 1
AUDIO_MAX_S = 21_600.0
AUDIO_CHUNK_S = 300.0
AUDIO_MAX_CHANNELS = 32
MAX_UPLOAD_BYTES = 2_147_483_648
