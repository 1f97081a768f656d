"""`StaticTokenVerifier` of FastMCP: access tokens that stand in the program, for development."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import LocalError
from .oauth_models import OfficialAccessToken


class StaticTokenVerifier:
    """Accepts the tokens of a dict; for development only."""

    def __init__(self, tokens: Mapping[str, Mapping[str, Any]], required_scopes: list[str] | None = None) -> None:
        """Create a verifier. Raises LocalError for a token without a `client_id`.

        Args:
            tokens: For each token its `client_id`, `sub`, `scopes` and `expires_at`, and other claims.
            required_scopes: Scopes that all tokens need.
        """
        for token, claims in tokens.items():
            if not claims.get("client_id"):
                raise LocalError(f"StaticTokenVerifier(): the token {token[:4] + '…'!r} needs a client_id")
        self.tokens = tokens
        self.required_scopes = required_scopes or []

    async def verify_token(self, token: str) -> OfficialAccessToken | None:
        """Return the token's data; None if it is unknown or has not the scopes."""
        claims = self.tokens.get(token)
        if claims is None or not {*self.required_scopes} <= {*claims.get("scopes", ())}:
            return None
        return OfficialAccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=list(claims.get("scopes", ())),
            expires_at=claims.get("expires_at"),
            subject=claims.get("sub"),
            claims=dict(claims),
        )
