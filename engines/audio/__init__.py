"""What the engines for audio share: 16 kHz mono samples, and where there is speech in them. No engine itself.

samples   samples read from, and written to, a file
speech    spans of speech, and the windows that a recogniser gets
sphinx    words with their times, from a decoder of pocketsphinx
"""
