"""Read these tests first: what Dalston guarantees for a task, from submit to result."""
