"""Dead letters: all of them in groups, the letters of a group, and one.

letter_values, letter_fragments   the page of one
query                how open ones are found at a cost that doesn't grow with their number
acts, replay         replay, discard, undo; replay with changes
orders               which replay orders name a letter, asked once
"""
