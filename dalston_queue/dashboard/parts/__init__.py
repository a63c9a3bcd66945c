"""What several pages share.

charts        small SVG charts, and the last hour of samples
black_box     what is left of a dead engine or of unreadable bytes
words         counted nouns, durations, tones, progress, outcomes
request       query strings and forms, checked; URLs of our own pages
"""
