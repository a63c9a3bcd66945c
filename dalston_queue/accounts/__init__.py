"""Accounts: logins with a role, and API tokens.

roles            the three roles, and what each may do in Django's admin
identities       people of the sign-in provider: their accounts, and the roles that their groups give them
tokens           issues and revokes API tokens, with audit entries
login_throttle   limits failed logins per account and per address
"""
