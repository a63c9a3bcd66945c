"""The yardstick: a Django project as `startproject` makes it, with one bare django-ninja view that inserts one row.

Nothing of Dalston is in it but its settings for the database pool and the log. No authentication, no limits.
"""
