"""The align engine: times of words whose text is known.

engine      aligns the segments of a chunk
alignment   forced alignment of a few seconds by pocketsphinx
words       the words of a text, and times for those that were not aligned; pure
"""
