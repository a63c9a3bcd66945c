"""Reasons to stop."""


class UpError(Exception):
    """`up` can't go on. The message says why and what to do; the exit code is 1."""


class Interrupted(BaseException):  # not an Exception: nothing on the way may swallow it
    """Ctrl-C or SIGTERM: stop everything, in good order."""
