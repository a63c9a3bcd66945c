"""The version of a token's row, for statements that depend on it: SQL about a row that they call `token`."""

VERSION = "token.xmin::text || token.ctid::text"
"""Another after each change of the row, even within one transaction."""

UNCHANGED = f"""
    SELECT FROM dalston_api_token AS token WHERE token.id = %(token)s AND {VERSION} = %(version)s"""
"""One row, or none if it was changed or deleted."""
