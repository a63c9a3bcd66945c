"""The audit trail: written with each action, read, exported, verified.

record   `audited(...)`: writes an operator's action before and after it happens
trail    reads and exports the trail
chain    verifies the hash chain that the database writes (migrations/audit_chain.sql)
"""
