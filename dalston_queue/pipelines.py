"""The pipelines of this app. Registered at start, because the module has this name (apps.py)."""

from dalston_queue.jobs.submit.spec import pipeline
from dalston_queue.transcription.wanted import NAME, pipeline_stages

pipeline(NAME)(pipeline_stages)
