"""The audit trail: a page of it, what each act changed, and its two files."""
