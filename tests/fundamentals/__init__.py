"""Read these tests first: what Dalston promises for one task, from submit to result, in ten short stories."""
