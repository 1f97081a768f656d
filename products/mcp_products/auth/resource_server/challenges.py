"""WWW-Authenticate challenges (https://www.rfc-editor.org/rfc/rfc6750#section-3,
https://www.rfc-editor.org/rfc/rfc9449#section-7.1, https://www.rfc-editor.org/rfc/rfc9728#section-5.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mcp_runtime.http.authentication import AuthChallenge, check_scopes
from mcp_runtime.session.interfaces import INSUFFICIENT_SCOPE, RawHeaders


@dataclass(frozen=True, slots=True)
class Challenges:
    """The challenges of one protected resource.

    Args:
        metadata_url: URL of the protected resource metadata; None if there is none.
        scopes: Scopes that every request needs.
        dpop_algorithms: Signature algorithms of DPoP proofs. Default: DPoP is not supported.
        bearer: True if bearer tokens are accepted. Default True.
    """

    metadata_url: str | None
    scopes: tuple[str, ...]
    dpop_algorithms: tuple[str, ...] = ()
    bearer: bool = True

    def missing_token(self) -> AuthChallenge:
        """Return the challenge for a request without a token. It has no error code
        (https://www.rfc-editor.org/rfc/rfc6750#section-3.1)."""
        return AuthChallenge(401, "the request needs an access token", self._headers(None, self.scopes))

    def invalid_request(self, reason: str) -> AuthChallenge:
        """Return the challenge for malformed credentials."""
        return AuthChallenge(400, reason, self._headers("invalid_request", self.scopes))

    def invalid_token(self, error: str = "invalid_token", extra_headers: RawHeaders = ()) -> AuthChallenge:
        """Return the challenge for an invalid token or proof. It does not reveal the reason."""
        headers = [*self._headers(error, self.scopes), *extra_headers]
        return AuthChallenge(401, "the access token or its proof is not valid", headers)

    def insufficient_scope(self, scopes: Iterable[str]) -> RawHeaders:
        """Return the headers that name all scopes the request needs, together with those every request needs.

        Raises LocalError for text that is no scope: it could end its parameter, and begin another.
        """
        return self._headers(INSUFFICIENT_SCOPE, check_scopes([*self.scopes, *scopes]))

    def _headers(self, error: str | None, scopes: tuple[str, ...]) -> RawHeaders:
        parameters = {"error": error, "scope": " ".join(scopes) or None, "resource_metadata": self.metadata_url}
        parts = [f'{name}="{value}"' for name, value in parameters.items() if value is not None]
        headers = [_header("Bearer", parts)] if self.bearer else []
        if self.dpop_algorithms:
            headers.append(_header("DPoP", [f'algs="{" ".join(self.dpop_algorithms)}"', *parts]))
        return headers


def _header(scheme: str, parts: Sequence[str]) -> tuple[bytes, bytes]:
    return b"www-authenticate", f"{scheme} {', '.join(parts)}".rstrip().encode("ascii")
