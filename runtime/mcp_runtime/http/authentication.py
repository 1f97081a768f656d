"""The seam of authorization: what protects an HTTP endpoint, and the responses that reject a request."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from ..errors import LocalError
from ..session.interfaces import RawHeaders, RequestAuth

if TYPE_CHECKING:
    from .headers import Headers

# OAuth scopes (https://www.rfc-editor.org/rfc/rfc6749#section-3.3).

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def check_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return scopes without duplicates. Raises LocalError for an invalid scope."""
    unique = tuple(dict.fromkeys(scopes))
    for scope in unique:
        if not _SCOPE.fullmatch(scope):
            rule = "a scope has visible ASCII characters other than quotation mark and backslash"
            remedy = f": write scopes={scope.split()}" if " " in scope else ""
            raise LocalError(f"scopes: {scope!r} is not a valid scope: {rule}{remedy}")
    return unique


@dataclass(frozen=True, slots=True)
class AuthChallenge:
    """The response to a request that is not authorized.

    Args:
        status: HTTP status code.
        reason: Reason, as a sentence for the client's developer.
        headers: Response headers. Default: none.
    """

    status: int
    reason: str
    headers: RawHeaders = ()


class Authenticator(Protocol):
    """Authenticates the requests to one endpoint by their headers."""

    @property
    def document(self) -> bytes:
        """The metadata of the resource, as JSON."""
        ...

    def is_metadata_path(self, path: str, endpoint: str | None) -> bool:
        """Return True if a path is a well-known path of the metadata."""
        ...

    async def authenticate(
        self, headers: Headers, method: str, path: str | None, query: bytes
    ) -> RequestAuth | AuthChallenge:
        """Return the authentication of a request, or the challenge with which to reject it.

        `path` is the path of the request if it differs from that of the resource.
        """
        ...


class Protection(Protocol):
    """What `auth=` of a server over HTTP takes, such as a `ResourceServer`."""

    def authenticator(self, mounted: bool, serves_metadata: bool) -> Authenticator:
        """Return what authenticates the requests to one endpoint.

        `serves_metadata`: the MCP versions of the endpoint use protected resource metadata. `mounted`: the endpoint is
        part of another application.
        """
        ...
