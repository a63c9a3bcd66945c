"""Accounts: logins with a role, and API tokens.

roles            the three roles, and what each may do in Django's admin
tokens           issues and revokes API tokens, with audit entries
login_throttle   limits failed logins per account and per address
"""
