"""The one error of this package."""


class ServerError(Exception):
    """A private server could not be prepared or started. The message says why and what to do."""
