"""What several pages share.

charts, history      small SVG charts, and the last hour in minute samples to draw
black_box            what is left of a dead engine or of unreadable bytes
words, places, progress, runs   counted nouns, durations, tones; addresses; how far a task is; how a run ended
query                what a page's address asks for, checked; the same for its socket
reason, back         why a button is pressed, and where that leads
"""
