"""Transcription: speech in, transcript out, as a job whose stages engines run.

speech_models   the models of speech by name, and their capabilities
wanted          what a client asks, checked; the job that does it
state           a transcription as its job and tasks show it
document        transcript.json, read and checked
formats         a transcript as text, subtitles or JSON
"""
