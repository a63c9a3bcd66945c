"""Errors of the API.

problems    RFC 9457 problem documents and their stable codes
handlers    exception -> problem document
middleware  trace ids, and problem documents for what happens around routes
"""
