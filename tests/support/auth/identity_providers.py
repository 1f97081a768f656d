"""An authorization server on this machine that plays an identity provider: a row of the table says how."""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

from mcp_products.auth.providers.provider import IdentityProvider, providers
from mcp_runtime.protocol.models import is_list, is_object

REDIRECT = "http://127.0.0.1:7/callback"
ROLE = "mcp-admins"
SUBJECT = "4711"
SECRET = "s&cret"


def path_of(url: str) -> str:
    return urlsplit(url).path


def moved(item: Any, origin: str) -> Any:
    """A row, or a part of it, whose addresses are at another origin."""
    if isinstance(item, str):
        return re.sub(r"https://[^/]+", origin, item)
    if is_object(item):
        return {key: moved(part, origin) for key, part in item.items()}
    return [moved(part, origin) for part in item] if is_list(item) else item


class Account(ThreadingHTTPServer):
    """One account at a provider, which is set up as the table says."""

    daemon_threads = True

    def __init__(self, name: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.origin = f"http://127.0.0.1:{self.server_port}"
        row: Any = {key: part for key, part in providers()[name].items() if key not in ("needs", "setup", "sources")}
        self.values = {**providers()[name]["needs"]}
        if "client_secret" in self.values:
            self.values["client_secret"] = SECRET
        whole = {**providers()[name], **moved(row, self.origin)}
        self.provider = IdentityProvider({**whole, "needs": self.values}, **self.values)
        self.row: dict[str, Any] = json.loads(self.filled(json.dumps(moved(row, self.origin))))
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self.resource = ""
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.codes: dict[str, dict[str, str]] = {}
        self.opaque: set[str] = set()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def filled(self, text: str) -> str:
        for name, value in self.values.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    @property
    def client(self) -> str:
        return self.values.get("client_id", "client-of-a-user")

    def metadata(self, path: str) -> dict[str, Any]:
        """The metadata in the form of its path: that of OAuth, or that of OpenID Connect."""
        issuer = self.row["issuer"]
        for form in self.row.get("also", []):
            if path_of(form["issuer"]).rstrip("/") == path.removesuffix("/.well-known/openid-configuration"):
                issuer = form["issuer"]
        document = {
            "issuer": issuer,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "jwks_uri": self.row.get("jwks", f"{self.origin}/keys"),
            "response_types_supported": ["code"],
        }
        if self.row.get("registration", "no") != "no":
            document["registration_endpoint"] = f"{self.origin}/register"
        if self.row.get("pkce") != "unlisted":
            document["code_challenge_methods_supported"] = ["S256"]
        if path.endswith("openid-configuration"):
            document |= {"subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"]}
        return document

    def metadata_paths(self) -> set[str]:
        own = {path_of(url) for url in self.row["metadata"]}
        further = {path_of(form["issuer"]).rstrip("/") for form in self.row.get("also", [])}
        return own | {f"{path}/.well-known/openid-configuration" for path in further}

    def token(self, form: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """A token of this provider, but for what is said; a claim that is None is left out."""
        row = self.row if form is None else form
        now = int(time.time())
        issuer = row.get("token_issuer", row["issuer"])
        payload: dict[str, Any] = {"iss": issuer, "sub": SUBJECT, "iat": now, "exp": now + 600, "scope": "notes.read"}
        payload["client_id"] = self.client
        payload[row.get("audience_claim", "aud")] = row["audience"][0].replace("{resource}", self.resource)
        payload |= {name: value or self.client for name, value in self.row.get("claims", {}).items()}
        payload |= {name: ["more"] for name in self.row.get("scope_claims", [])}
        inner = payload
        *path, last = self.row["roles"].split(".") if "roles" in self.row else ["none"]
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = ["others", ROLE]
        payload = {name: value for name, value in {**payload, **claims}.items() if value is not None}
        if "lookup" in self.row:
            token = secrets.token_urlsafe(16)
            self.opaque.add(token)
            return token
        return jwt.encode({"alg": "RS256", "kid": "one", "typ": "JWT"}, payload, self.key)

    def looked_up(self, token: str, aud: str | None = None) -> dict[str, Any]:
        """What the address for opaque tokens answers, in the form that the table reads."""
        leaves = {"sub": int(SUBJECT), "aud": aud or self.client, "client_id": self.client, "azp": self.client}
        leaves |= {"login": "ada", "email": "ada@example.com", "email_verified": "true"}
        by_app = self.row["lookup"]["sends"] == "json"
        leaves |= {"exp": str(int(time.time()) + 600), "scope": ["notes.read"] if by_app else "notes.read"}
        answer: dict[str, Any] = {}
        for claim, place in self.row["lookup"]["claims"].items():
            inner = answer
            *path, last = place.split(".")
            for part in path:
                inner = inner.setdefault(part, {})
            inner[last] = leaves[claim]
        return answer

    def close(self) -> None:
        self.shutdown()
        self.server_close()


@contextmanager
def account(name: str) -> Generator[Account]:
    """Yield an account at a provider."""
    running = Account(name)
    try:
        yield running
    finally:
        running.close()


class _Handler(BaseHTTPRequestHandler):
    server: Account  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url, account = urlsplit(self.path), self.server
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        account.requests.append((url.path, query))
        keys = path_of(account.row.get("jwks", "/keys"))
        if url.path in account.metadata_paths():
            return self._say(200, account.metadata(url.path))
        if url.path == keys:
            return self._say(200, {"keys": [account.key.as_dict(private=False)]})
        if "lookup" in account.row and url.path == path_of(account.row["lookup"]["url"]):
            token = self.headers.get("authorization", "").removeprefix("Bearer ")
            known = token in account.opaque
            return self._say(200 if known else 400, account.looked_up(token) if known else {"error": "invalid_token"})
        if url.path == "/authorize":
            return self._authorize(query)
        self._say(404, "<!doctype html><title>Not found</title>")

    def _authorize(self, query: dict[str, str]) -> None:
        if self.server.row.get("resource") == "refused" and "resource" in query:
            answer = {"error": "invalid_target"}
        else:
            code = secrets.token_urlsafe(8)
            self.server.codes[code] = query
            answer = {"code": code}
        self.send_response(302)
        self.send_header("location", f"{query['redirect_uri']}?{urlencode({**answer, 'state': query['state']})}")
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        account, text = self.server, self.rfile.read(int(self.headers["content-length"])).decode()
        form = {name: values[0] for name, values in parse_qs(text).items()} if not text.startswith("{") else {}
        account.requests.append((self.path, form))
        if self.path == "/register":
            return self._say(201, {**json.loads(text), "client_id": account.client})
        if "lookup" in account.row and self.path == path_of(account.row["lookup"]["url"]):
            who = b64decode(self.headers.get("authorization", "").removeprefix("Basic ")).decode()
            if who != f"{account.client}:{SECRET}":
                return self._say(401, {})
            token = json.loads(text)["access_token"]
            known = token in account.opaque
            return self._say(200 if known else 404, account.looked_up(token) if known else {})
        if self.path != "/token":
            return self._say(404, {})
        asked = account.codes.pop(form.get("code", ""), {})
        challenge = urlsafe_b64encode(sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=").decode()
        if asked.get("code_challenge") != challenge:
            return self._say(400, {"error": "invalid_grant"})
        self._say(200, {"access_token": account.token(), "token_type": "Bearer", "expires_in": 600})

    def _say(self, status: int, document: Any) -> None:
        body = (document if isinstance(document, str) else json.dumps(document)).encode()
        self.send_response(status)
        self.send_header("content-type", "text/html" if isinstance(document, str) else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""
