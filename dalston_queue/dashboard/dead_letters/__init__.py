"""The pages of dead letters: groups, the dead letters of a group, and one.

query         finds open dead letters at a cost that does not grow with their number
patterns      what the dead letters of the last day have in common
read          groups or dead letters, and the replay batches in progress
read_one      one dead letter
render, views both pages
actions       replay, discard, undo
replay        replay with changes: a form, a dry run, the replay batch
"""
