"""The audit trail: chained, kept by the database, verified."""
