"""Transcription: speech in, transcript out, as a job whose stages engines run.

models    the models of speech by name
wanted    what a client asks, checked; the job that does it
state     a transcription as its job and tasks show it
formats   a transcript as text, subtitles or JSON
"""
