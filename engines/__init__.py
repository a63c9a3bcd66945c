"""Engines. They need Redis only: no Django, no database.

sdk         the SDK that engines are built on
prepare     a recording as chunks, and the stages that transcribe them
transcribe  speech in a chunk to text
align       times of the words of a chunk
merge       the transcript of a recording from those of its chunks
audio       what the engines for audio share; no engine itself
demo        an engine for trying things out
"""
