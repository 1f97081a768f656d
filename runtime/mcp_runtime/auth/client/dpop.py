"""A request goes in, the proof that its sender holds the key of its token comes out (RFC 9449)."""

from __future__ import annotations

import hashlib
import secrets
import time
from base64 import urlsafe_b64encode
from typing import Any
from urllib.parse import urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey


class DPoPProver:
    """Proofs of one key, which never leaves this object; nonces are kept by origin."""

    def __init__(self) -> None:
        self._key = ECKey.generate_key("P-256", private=True)
        self._nonces: dict[str, str] = {}

    @property
    def thumbprint(self) -> str:
        """The name of the key, of which nothing can be learned (RFC 7638)."""
        return self._key.thumbprint()

    def header(self, method: str, url: str, token: str | None = None) -> str:
        """A new proof for one request, with the nonce that its server gave last."""
        parts = urlsplit(url)
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": f"{parts.scheme}://{parts.netloc}{parts.path}",
            "iat": int(time.time()),
        }
        if token is not None:
            claims["ath"] = urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
        if (nonce := self._nonces.get(_url_origin(url))) is not None:
            claims["nonce"] = nonce
        head = {"typ": "dpop+jwt", "alg": "ES256", "jwk": self._key.as_dict(private=False)}
        return jwt.encode(head, claims, self._key, algorithms=["ES256"])

    def update_nonce(self, url: str, nonce: str | None) -> bool:
        """Take the nonce of an answer, if it has one; whether it is another than before."""
        if not nonce or nonce == self._nonces.get(_url_origin(url)):
            return False
        self._nonces[_url_origin(url)] = nonce
        return True


def _url_origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
