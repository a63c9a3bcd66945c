"""The page of one's own account.

views         the password: changed by its user, on record
"""
