"""Who may do what: by login with a role, or by token.

roles            the three roles, and what each may do in Django's admin
tokens           API tokens: issued and revoked, on record
login_throttle   how many logins may be tried, per account and per address
"""
