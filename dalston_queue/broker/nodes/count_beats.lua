#!lua flags=allow-oom
-- Moves the beat counters that reclaim rechecks, of all engines of a node that serve one queue.
-- KEYS  1 beats
-- ARGV  engine ids
-- Returns nothing. Repeatable: once more is one more beat.
-- include: record, beats
for i = 1, #ARGV do count_beat(KEYS[1], ARGV[i]) end
