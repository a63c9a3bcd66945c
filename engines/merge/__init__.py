"""The merge engine: the transcript of a file from the transcripts of its chunks.

engine    reads the parents' results, stores transcript.json
joining   segments of all chunks and channels in the order of time; pure
"""
