"""Discovery: the protected resource and the authorization server of an MCP server (RFC 9728, RFC 8414)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import AuthorizationError
from ..http.client_rules import NegotiatedRevision
from ..http.headers import PROTOCOL_VERSION
from ..http.urls import base_url, redact_url
from .http import AuthHTTPClient
from .metadata import (
    ISSUER_MEMBERS,
    RESOURCE_MEMBERS,
    AuthorizationServerMetadata,
    DiscoveryMethod,
    ProtectedResourceMetadata,
    authorization_server_metadata_urls,
    default_endpoints,
    is_same_issuer,
    protected_resource_metadata_urls,
    read_authorization_server_metadata,
    read_protected_resource_metadata,
)


@dataclass(frozen=True, slots=True)
class AuthorizationServerDiscovery:
    """Finds the authorization server of an MCP server.

    Args:
        http: Client for the requests.
        server: URL of the MCP server.
        discovery: The method; None for that of the negotiated MCP version.
        issuers: Trusted authorization servers; all if empty.
        aliases: Other issuer identifiers that an issuer's metadata may have, by issuer.
    """

    http: AuthHTTPClient
    server: str
    discovery: DiscoveryMethod | None
    issuers: Sequence[str]
    aliases: Mapping[str, Sequence[str]]

    async def find(
        self, metadata_url: str | None, negotiated: NegotiatedRevision | None, *, has_resource_metadata: bool = False
    ) -> tuple[ProtectedResourceMetadata | None, AuthorizationServerMetadata]:
        """Return the metadata of the protected resource and of its authorization server.

        The first is None if the MCP server is its own authorization server. `metadata_url` is the `resource_metadata`
        parameter of the challenge; `has_resource_metadata` is True if the server had such metadata before.
        Raises AuthorizationError.
        """
        headers = {PROTOCOL_VERSION: negotiated.revision.id} if negotiated is not None else {}
        if self._uses_resource_metadata(negotiated):
            urls = protected_resource_metadata_urls(self.server, metadata_url)
            document, found = await self.http.first_document(urls, RESOURCE_MEMBERS, headers)
            if document is not None:
                resource = read_protected_resource_metadata(document, self.server, self.http.policy)
                method = DiscoveryMethod.PROTECTED_RESOURCE_METADATA
                return resource, await self._issuer(resource.authorization_servers, method, headers)
            if metadata_url is not None or has_resource_metadata or not self._may_be_legacy(negotiated):
                raise AuthorizationError(
                    f"{redact_url(self.server)} has no protected resource metadata (RFC 9728), so its authorization "
                    f"server is unknown: {found}"
                )
        return None, await self._issuer((base_url(self.server),), DiscoveryMethod.SERVER_ORIGIN, headers)

    def _uses_resource_metadata(self, negotiated: NegotiatedRevision | None) -> bool:
        if self.discovery is not None:
            return self.discovery is DiscoveryMethod.PROTECTED_RESOURCE_METADATA
        return negotiated is None or negotiated.revision.http.resource_metadata

    def _may_be_legacy(self, negotiated: NegotiatedRevision | None) -> bool:
        """Return True if the client also accepts an MCP version without protected resource metadata. The negotiated
        version does not matter: old servers were updated without their login."""
        if self.discovery is not None or negotiated is None:
            return False
        return any(not revision.http.resource_metadata for revision in negotiated.alternatives())

    async def _issuer(
        self, issuers: Sequence[str], discovery: DiscoveryMethod, headers: Mapping[str, str]
    ) -> AuthorizationServerMetadata:
        issuer = next((issuer for issuer in issuers if not self.issuers or self._trusts(issuer)), None)
        if issuer is None:
            raise AuthorizationError(
                f"no authorization server of {redact_url(self.server)} is among the trusted `issuers`"
            )
        urls = authorization_server_metadata_urls(issuer, discovery)
        document, found = await self.http.first_document(urls, ISSUER_MEMBERS, headers)
        if document is not None:
            aliases = [name for key, names in self.aliases.items() if is_same_issuer(key, issuer) for name in names]
            return read_authorization_server_metadata(document, issuer, self.http.policy, aliases)
        if discovery is DiscoveryMethod.SERVER_ORIGIN:
            return default_endpoints(self.server)
        raise AuthorizationError(f"the authorization server {redact_url(issuer)} has no metadata (RFC 8414): {found}")

    def _trusts(self, issuer: str) -> bool:
        return any(is_same_issuer(issuer, trusted) for trusted in self.issuers)
