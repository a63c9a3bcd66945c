"""Callback URLs and their addresses: the rules for what a client names (addresses.py), in the words of a webhook."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dalston_queue import addresses
from dalston_queue.addresses import Network, NotPublic, Target, UrlRefused
from dalston_queue.jobs.errors import InvalidCallback


def read_target(url: str, allowed: Sequence[Network] = ()) -> Target:
    """Raises InvalidCallback for a URL that may not be called, as far as the text shows."""
    with _refused():
        return addresses.read_url(url, allowed)


def check_address(text: str, allowed: Sequence[Network] = ()) -> None:
    """Raises InvalidCallback for an address that is not public and not allowed. `text` is numeric."""
    with _refused():
        addresses.check_address(text, allowed)


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except NotPublic as error:
        raise InvalidCallback(
            f"callback_url {error}; DALSTON_WEBHOOK_ALLOWED_NETWORKS names the private networks that may be called"
        ) from None
    except UrlRefused as error:
        raise InvalidCallback(f"callback_url {error}") from None
