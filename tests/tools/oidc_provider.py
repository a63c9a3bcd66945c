"""An OpenID Connect provider for tests: discovery, authorize, token, keys, userinfo, sign-out, with real RS256 keys.

`python -m tests.tools.oidc_provider PORT` runs it on loopback. It knows one client, holds it to PKCE, its secret and
its redirect URI, and gives each code once. `POST /control` with JSON changes who signs in, and what is wrong with the
answers.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "dalston-tests", "a secret of the client"
ADA = {"sub": "7f3a-ada", "preferred_username": "ada", "groups": ["gpu-ops"]}


class State:
    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.key, self.stranger = (RSAKey.generate_key(2048, {"kid": "1"}) for _ in range(2))
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: dict[str, dict[str, Any]] = {}
        self.reset()

    def reset(self) -> None:
        self.claims: dict[str, Any] = dict(ADA)
        self.userinfo: dict[str, Any] | None = None  # as in the token
        self.fault = ""
        self.seen: list[str] = []

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": "https://elsewhere.example" if self.fault == "discovery" else self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "end_session_endpoint": f"{self.issuer}/sign-out",
            "jwks_uri": f"{self.issuer}/keys",
            # A careless provider, which must not be believed.
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }

    def id_token(self, asked: dict[str, str], access_token: str) -> str:
        now = int(time.time())
        half = hashlib.sha256(access_token.encode()).digest()[:16]
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            "at_hash": _base64(half),
            **self.claims,
        }
        wrong: dict[str, dict[str, Any]] = {
            "audience": {"aud": "another-client"},
            "authorized_party": {"aud": "another-client", "azp": CLIENT},
            "issuer": {"iss": "https://elsewhere.example"},
            "expired": {"iat": now - 7200, "exp": now - 3600},
            "nonce": {"nonce": "of another sign-in"},
            "at_hash": {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"},
        }
        claims |= wrong.get(self.fault, {})
        if self.fault == "no_nonce":
            del claims["nonce"]
        if self.fault == "none":
            return f"{_signed_part('none', claims)}."
        if self.fault == "hs256":  # signed with what is no secret: the public key, as if it were a shared secret
            signed = _signed_part("HS256", claims)
            mac = hmac.digest(self.key.as_pem(private=False), signed.encode(), "sha256")
            return f"{signed}.{_base64(mac)}"
        key = self.stranger if self.fault == "signature" else self.key
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, key)


def _signed_part(algorithm: str, claims: dict[str, Any]) -> str:
    parts = ({"alg": algorithm, "kid": "1", "typ": "JWT"}, claims)
    return ".".join(_base64(json.dumps(part).encode()) for part in parts)


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class Handler(BaseHTTPRequestHandler):
    state: State

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.state.seen.append(parts.path)
        if self.state.fault == "down" and parts.path != "/seen":
            return self._answer(500, {"error": "server_error"})
        if parts.path == "/confirm":
            return self._confirm(query)
        return self._answer(*self._page(parts.path, parts.query))

    def _page(self, path: str, query: str) -> tuple[int, Any]:
        login = f"<a href='/confirm?{query.replace('&', '&amp;')}'>Continue as ada</a>"
        token = self.state.tokens.get(self.headers.get("Authorization", "").removeprefix("Bearer "))
        pages: dict[str, tuple[int, Any]] = {
            "/.well-known/openid-configuration": (200, self.state.discovery()),
            "/keys": (200, {"keys": [self.state.key.as_dict(private=False)]}),
            "/authorize": (200, f"<!doctype html><title>Provider</title>{login}"),
            "/sign-out": (200, "<!doctype html><title>Provider</title>Signed out at the provider"),
            "/userinfo": (200, token) if token else (401, {"error": "invalid_token"}),
            "/seen": (200, self.state.seen),
        }
        return pages.get(path, (404, {}))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.path.startswith("/control"):
            self.state.reset()
            if self.path.endswith("?new-key"):
                self.state.key = RSAKey.generate_key(2048, {"kid": secrets.token_hex(4)})
            for name, value in json.loads(body).items():
                setattr(self.state, name, value)
            return self._answer(200, {})
        self.state.seen.append(self.path)
        if self.state.fault == "token_down":
            return self._answer(500, {"error": "server_error"})
        asked = {name: values[0] for name, values in parse_qs(body).items()}
        problem = self._problem(asked)
        if problem:
            return self._answer(400, {"error": problem})
        access = secrets.token_urlsafe(16)
        claims = self.state.claims
        self.state.tokens[access] = claims if self.state.userinfo is None else self.state.userinfo
        answer = {"access_token": access, "token_type": "Bearer", "expires_in": 300}
        if self.state.fault != "no_id_token":
            answer["id_token"] = self.state.id_token(self.state.codes.pop(asked["code"]), access)
        return self._answer(200, answer)

    def _confirm(self, query: dict[str, str]) -> None:
        needed = {"response_type": "code", "client_id": CLIENT, "code_challenge_method": "S256"}
        if any(query.get(name) != value for name, value in needed.items()) or "openid" not in query["scope"].split():
            return self._answer(400, {"error": "invalid_request"})
        code = secrets.token_urlsafe(16)
        self.state.codes[code] = query
        back = {"state": query["state"], "code": code, "iss": self.state.issuer}
        if self.state.fault == "denied":
            back = {"state": query["state"], "error": "access_denied", "error_description": "<b>text of others</b>"}
        self.send_response(302)
        self.send_header("Location", f"{query['redirect_uri']}?{urlencode(back)}")
        return self.end_headers()

    def _problem(self, asked: dict[str, str]) -> str:
        basic = "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if self.headers.get("Authorization") != basic:
            return "invalid_client"
        known = self.state.codes.get(asked.get("code", ""))
        verifier = hashlib.sha256(asked.get("code_verifier", "").encode()).digest()
        if (
            known is None
            or asked.get("redirect_uri") != known["redirect_uri"]
            or _base64(verifier) != known["code_challenge"]
        ):
            return "invalid_grant"
        return ""

    def _answer(self, status: int, body: Any) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Quiet."""


if __name__ == "__main__":
    port = int(sys.argv[1])
    Handler.state = State(f"http://127.0.0.1:{port}")
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
