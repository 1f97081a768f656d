"""A server and what it said in its 401 go in; the resource it is, and the authorization server it takes tokens of, come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from ..errors import AuthorizationError
from ..http.client_rules import NegotiatedRevision
from ..http.headers import PROTOCOL_VERSION
from ..http.urls import redact_url
from .http import AuthHTTPClient
from .metadata import (
    AuthorizationServerMetadata,
    DiscoveryMethod,
    ProtectedResourceMetadata,
    authorization_server_metadata_urls,
    default_endpoints,
    protected_resource_metadata_urls,
    read_authorization_server_metadata,
    read_protected_resource_metadata,
)


@dataclass(frozen=True, slots=True)
class AuthorizationServerDiscovery:
    """Finds the authorization server of `server`. `discovery`: None for what the revision spoken has. `issuers` and
    `aliases` are those of OAuthClientProvider."""

    http: AuthHTTPClient
    server: str
    discovery: DiscoveryMethod | None
    issuers: Sequence[str]
    aliases: Mapping[str, Sequence[str]]

    async def find(
        self, hint: str | None, negotiated: NegotiatedRevision | None
    ) -> tuple[ProtectedResourceMetadata | None, AuthorizationServerMetadata]:
        """The resource, None where the server is its own authorization server, and the issuer. `hint`: where the 401
        says that the metadata of the resource is. Raises AuthorizationError."""
        headers = {PROTOCOL_VERSION: negotiated.revision.id} if negotiated is not None else {}
        if self._uses_resource_metadata(negotiated):
            found = await self._document(protected_resource_metadata_urls(self.server, hint), headers)
            if found is not None:
                resource = read_protected_resource_metadata(found, self.server, self.http.policy)
                return resource, await self._issuer(resource.authorization_servers, DiscoveryMethod.PROTECTED_RESOURCE_METADATA, headers)
            if hint is not None or not self._may_be_legacy(negotiated):
                raise AuthorizationError(
                    f"{redact_url(self.server)} does not say which authorization server it takes tokens of"
                )
        parts = urlsplit(self.server)
        return None, await self._issuer((f"{parts.scheme}://{parts.netloc}",), DiscoveryMethod.SERVER_ORIGIN, headers)

    def _uses_resource_metadata(self, negotiated: NegotiatedRevision | None) -> bool:
        if self.discovery is not None:
            return self.discovery is DiscoveryMethod.PROTECTED_RESOURCE_METADATA
        return negotiated is None or negotiated.revision.http.resource_metadata

    def _may_be_legacy(self, negotiated: NegotiatedRevision | None) -> bool:
        """Whether the server may be of a revision without metadata of resources: no revision is agreed yet."""
        if self.discovery is not None or negotiated is None:
            return False
        return any(not each.http.resource_metadata for each in negotiated.alternatives())

    async def _issuer(
        self, names: Sequence[str], discovery: DiscoveryMethod, headers: Mapping[str, str]
    ) -> AuthorizationServerMetadata:
        name = next((each for each in names if not self.issuers or each in self.issuers), None)
        if name is None:
            raise AuthorizationError(f"{redact_url(self.server)} takes tokens of no issuer that is trusted here")
        found = await self._document(authorization_server_metadata_urls(name, discovery), headers)
        if found is not None:
            return read_authorization_server_metadata(found, name, self.http.policy, self.aliases.get(name, ()))
        if discovery is DiscoveryMethod.SERVER_ORIGIN:
            return default_endpoints(self.server)
        raise AuthorizationError(f"{redact_url(name)} has no metadata")

    async def _document(self, urls: Sequence[str], headers: Mapping[str, str]) -> object | None:
        """The first there is. What is there and cannot be used, is not passed over."""
        for url in urls:
            said = await self.http.get(url, headers)
            if said.status == 200:
                if said.body is None:
                    raise AuthorizationError(f"{redact_url(url)} is no JSON")
                body: object = said.body
                return body
            if not 400 <= said.status < 500:
                raise AuthorizationError(f"{redact_url(url)}: status {said.status}")
        return None
