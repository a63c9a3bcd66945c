"""One task: what it was given, gave and logged, and what an operator does to it.

acting               what an operator is about to act on, here or on the page of its stream
acts                 cancel, hand back, dead-letter
run_log              what its engine logged meanwhile, or what is left of that
"""
