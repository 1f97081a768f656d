"""Opaque tokens of providers that say what they are in a form of their own, and not in that of RFC 7662."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from mcp_runtime.errors import AuthorizationError
from mcp_runtime.http.urls import base_url
from mcp_runtime.protocol.models import is_list, is_object

from ..http import AuthHTTPClient, URLPolicy, is_loopback
from ..resource_server.roles import claim_at
from ..resource_server.verifiers import IntrospectionVerifier

# Statuses for a token that is not valid, by how it is sent.
_INVALID: Final[Mapping[str, tuple[int, ...]]] = {"bearer": (400, 401), "json": (404, 422)}


class LookupVerifier(IntrospectionVerifier):
    """Verifies tokens by the response of an address of their provider."""

    def __init__(
        self,
        lookup: Mapping[str, Any],
        *,
        client_id: str,
        client_secret: str,
        audience: Sequence[str],
        issuer: str,
    ) -> None:
        """Create a verifier.

        Args:
            lookup: The `lookup` of a row of the table.
            client_id: The client that tokens are for.
            client_secret: Its secret, if the address needs it.
            audience: Accepted audiences.
            issuer: Issuer identifier of the provider.
        """
        url: str = lookup["url"]
        local = is_loopback(urlsplit(url).hostname or "")
        policy = URLPolicy(local=local, private=frozenset({base_url(url).lower()}))
        super().__init__(url, client_id=client_id, client_secret=client_secret, audience=audience, issuer=issuer)
        self._lookup = lookup
        self._address = AuthHTTPClient(policy)
        self._credentials = f"Basic {b64encode(f'{client_id}:{client_secret}'.encode()).decode()}"

    async def introspect(self, token: str) -> Mapping[str, Any] | None:
        """Return the claims of a token, None if it is not valid. Raises AuthorizationError if nobody can say."""
        url = self._lookup["url"]
        if self._lookup["sends"] == "bearer":
            response = await self._address.get(url, {"authorization": f"Bearer {token}"})
        else:
            response = await self._address.post_json(url, {"access_token": token}, {"authorization": self._credentials})
        if response.status in _INVALID[self._lookup["sends"]]:
            return None
        if response.status != 200 or not is_object(response.body):
            raise AuthorizationError(f"{base_url(url)} responded with status {response.status}")
        found = {name: claim_at(response.body, path) for name, path in self._lookup["claims"].items()}
        return {name: _claim(name, value) for name, value in found.items() if value is not None}


def _claim(name: str, value: Any) -> Any:
    """Return a claim in the form of RFC 7662: some have numbers where it has texts, and texts where it has numbers."""
    if name == "exp":
        return int(value) if isinstance(value, str) and value.isdigit() else value
    if name == "scope" and is_list(value):
        return [item for item in value if isinstance(item, str)]
    return str(value) if name == "sub" else value
