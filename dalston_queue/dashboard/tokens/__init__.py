"""The page of API tokens.

read          the tokens that a person may see, and their state
views         the page; make a token, whose text is shown once; revoke one
"""
