"""Parts that several pages share.

charts        sparklines, and the last hour of samples
figures       lines over the last hour, and bars
black_box     the black box of a dead engine, and unreadable messages
words         counted nouns, durations, tones, progress, outcomes
request       query strings and forms, checked; URLs of our own pages
"""
