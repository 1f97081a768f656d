"""DPoP proofs of a client: each proves possession of the key that the access token is bound to
(https://www.rfc-editor.org/rfc/rfc9449#section-4)."""

from __future__ import annotations

import hashlib
import secrets
import time
from base64 import urlsafe_b64encode
from typing import Any
from urllib.parse import urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey

from ...http.urls import base_url


class DPoPProver:
    """Creates DPoP proofs with a new P-256 key, which never leaves this object."""

    def __init__(self) -> None:
        """Generate the key."""
        self._key = ECKey.generate_key("P-256", private=True)
        self._nonces: dict[str, str] = {}  # The last nonce of each server, by `base_url`.

    @property
    def thumbprint(self) -> str:
        """The thumbprint of the public key (https://www.rfc-editor.org/rfc/rfc7638)."""
        return self._key.thumbprint()

    def header(self, method: str, url: str, token: str | None = None) -> str:
        """Return a `DPoP` header for one request, with the last nonce of the server.

        `token` is the access token that the request carries; None for a token request.
        """
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": f"{base_url(url)}{urlsplit(url).path}",
            "iat": int(time.time()),
        }
        if token is not None:
            claims["ath"] = urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
        if (nonce := self._nonces.get(base_url(url))) is not None:
            claims["nonce"] = nonce
        header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": self._key.as_dict(private=False)}
        return jwt.encode(header, claims, self._key, algorithms=["ES256"])

    def update_nonce(self, url: str, nonce: str | None) -> bool:
        """Store the nonce of a response (https://www.rfc-editor.org/rfc/rfc9449#section-8). Return True if it is
        new."""
        server = base_url(url)
        if not nonce or nonce == self._nonces.get(server):
            return False
        self._nonces[server] = nonce
        return True
