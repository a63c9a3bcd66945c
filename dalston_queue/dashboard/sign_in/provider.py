"""The sign-in provider: Authlib's client of OpenID Connect, with every check of its answers.

Authlib makes state, nonce and PKCE, reads discovery document and keys (new keys when a token names one), and verifies
signature, times, nonce and `at_hash`. What it leaves to its caller is checked here: that the discovery document is of
the configured issuer, that issuer and audience are ours also in a token with `azp`, and that only asymmetric
algorithms count, whatever the document lists.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from authlib.common.errors import AuthlibBaseError
from authlib.integrations.django_client import DjangoIntegration, DjangoOAuth2App
from django.conf import settings
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from requests import RequestException

from dalston_queue.accounts.identities import find
from dalston_queue.slots import Slots

NAME = "dalston"
KEPT_S = 600
"""How long discovery document and keys are used before they are read again."""
LEEWAY_S = 60
"""By which the clocks of provider and server may differ."""
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]
_USED = ("issuer", "authorization_endpoint", "token_endpoint", "userinfo_endpoint", "end_session_endpoint", "jwks_uri")
exchanges = Slots(20)
"""Requests of this process that wait for the provider: when it hangs, they must not take all threads."""


class Unreachable(Exception):
    """The provider does not answer, or with an error of its own."""


class BadAnswer(Exception):
    """The provider's answer is not valid, or not for us."""


class Provider(DjangoOAuth2App):  # type: ignore[misc]  # Authlib has no types
    def __init__(self) -> None:
        issuer = settings.DALSTON_OIDC_ISSUER
        super().__init__(
            DjangoIntegration(NAME),
            NAME,
            client_id=settings.DALSTON_OIDC_CLIENT_ID,
            client_secret=settings.DALSTON_OIDC_CLIENT_SECRET or None,
            server_metadata_url=f"{issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={
                "scope": settings.DALSTON_OIDC_SCOPES,
                "code_challenge_method": "S256",
                "default_timeout": settings.DALSTON_OIDC_TIMEOUT_S,
            },
        )
        self._document: dict[str, Any] = {}  # of the discovery, checked; and the keys
        self.made_at = time.monotonic()
        self.issuer = issuer

    def load_server_metadata(self) -> dict[str, Any]:
        if self._document:
            return self._document
        with self._get_session() as session:
            answer = session.request("GET", self._server_metadata_url, withhold_token=True)
            answer.raise_for_status()
            document = answer.json()
        if not isinstance(document, dict) or document.get("issuer") != self.issuer:
            raise BadAnswer(f"the discovery document is not of the issuer {self.issuer}")
        found: dict[str, Any] = {name: document[name] for name in _USED if isinstance(document.get(name), str)}
        listed = document.get("id_token_signing_alg_values_supported") or ALGORITHMS
        usable = [each for each in ALGORITHMS if each in listed]
        if not usable:
            raise BadAnswer("the provider signs with no algorithm that is accepted here")
        found["id_token_signing_alg_values_supported"] = usable
        # Basic is the default of the standard; some providers take the secret in the form only.
        methods = document.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if self.client_secret and "client_secret_basic" not in methods and "client_secret_post" in methods:
            found["token_endpoint_auth_method"] = "client_secret_post"  # noqa: S105 - a method's name
        self._document = self.server_metadata = found
        return found

    def check(self) -> None:
        """Raises what keeps people from signing in, as far as that shows without one of them."""
        with _plain_errors():
            KeySet.import_key_set(self.fetch_jwk_set())

    def begin(self, redirect_uri: str) -> dict[str, str]:
        """The provider's URL to send a browser to, and what must come back or be sent later."""
        with _plain_errors():
            kept: dict[str, str] = self.create_authorization_url(redirect_uri)
        return kept

    def claims(self, code: str, kept: dict[str, Any]) -> dict[str, Any]:
        """The verified claims of the person for whom the provider issued this code."""
        with _plain_errors():
            token = self.fetch_access_token(
                kept["redirect_uri"], code=code, code_verifier=kept["code_verifier"], grant_type="authorization_code"
            )
            options = {
                "iss": {"essential": True, "value": self.issuer},
                "aud": {"essential": True, "value": self.client_id},
                "sub": {"essential": True},
            }
            claims = self.parse_id_token(token, kept["nonce"], claims_options=options, leeway=LEEWAY_S)
            if claims is None:
                raise BadAnswer("the answer has no id_token")
            if not 0 < len(claims["sub"]) <= 255:
                raise BadAnswer("the claim sub has not 1 to 255 characters")
            return self._with_userinfo(dict(claims), token)

    def _with_userinfo(self, claims: dict[str, Any], token: dict[str, Any]) -> dict[str, Any]:
        """Some providers put names and groups into their userinfo only. What the signed token says stands."""
        wanted = (settings.DALSTON_OIDC_NAME_CLAIM, settings.DALSTON_OIDC_ROLES_CLAIM)
        if all(find(claims, path) is not None for path in wanted) or "userinfo_endpoint" not in self._document:
            return claims
        found = self.userinfo(token=token)
        if found.get("sub") != claims["sub"]:
            raise BadAnswer("the userinfo is about another subject than the token")
        return {**found, **claims}

    def sign_out_url(self, back: str) -> str | None:
        """Of the provider's own session; None: it can't be ended by others."""
        with _plain_errors():
            if "end_session_endpoint" not in self.load_server_metadata():
                return None
            found: dict[str, str] = self.create_logout_url(back, client_id=self.client_id)
            return found["url"]


@contextmanager
def _plain_errors() -> Iterator[None]:
    """What Authlib, its libraries and malformed answers raise, as one of our two errors."""
    try:
        yield
    except (Unreachable, BadAnswer):
        raise
    except RequestException as error:
        raise Unreachable(type(error).__name__) from error
    except (JoseError, AuthlibBaseError, ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        raise BadAnswer(f"{type(error).__name__}: {error}"[:300]) from error


_lock = threading.Lock()
_kept: dict[tuple[Any, ...], Provider] = {}


def provider() -> Provider:
    """The provider as it is configured, with what was read of it lately."""
    names = ("ISSUER", "CLIENT_ID", "CLIENT_SECRET", "SCOPES", "TIMEOUT_S")
    configured = tuple(getattr(settings, f"DALSTON_OIDC_{name}") for name in names)
    with _lock:
        known = _kept.get(configured)
        if known is None or time.monotonic() > known.made_at + KEPT_S:
            _kept.clear()
            known = _kept[configured] = Provider()
        return known
