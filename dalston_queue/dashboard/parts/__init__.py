"""Parts that several pages share.

charts        sparklines, and the last hour of samples
black_box     the black box of a dead engine, and unreadable messages
words         counted nouns, durations, tones, progress, outcomes
request       query strings and forms, checked; URLs of our own pages
"""
