"""Discovery: the protected resource and the authorization server of an MCP server (RFC 9728, RFC 8414)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast
from urllib.parse import urlsplit

from mcp_runtime.errors import AuthorizationError
from mcp_runtime.http.client_rules import NegotiatedRevision
from mcp_runtime.http.headers import PROTOCOL_VERSION
from mcp_runtime.http.urls import base_url, origin, redact_url
from mcp_runtime.protocol.models import is_list, is_object

from .http import AuthHTTPClient, URLPolicy

# OAuth metadata: where to find the documents of RFC 9728 and RFC 8414, and which of them to accept.

PROTECTED_RESOURCE_PATH: Final = "/.well-known/oauth-protected-resource"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_MAX_ISSUERS: Final = 5  # Authorization servers of one resource whose metadata is looked for.
_MAX_SHOWN: Final = 200  # Characters of an issuer identifier in an error.
_OPENID: Final = "/.well-known/openid-configuration"


# The members by which a document is recognized as metadata.
RESOURCE_MEMBERS: Final = ("resource", "authorization_servers")
ISSUER_MEMBERS: Final = ("issuer", "token_endpoint", "authorization_endpoint", "jwks_uri")


class DiscoveryMethod(Enum):
    """The method by which a client finds the authorization server of an MCP server.

    `PROTECTED_RESOURCE_METADATA`: the MCP server names it (https://www.rfc-editor.org/rfc/rfc9728).
    `SERVER_ORIGIN`: the origin of the MCP server is the authorization server, with default endpoints if it has no
    metadata. Older MCP versions work like this.
    """

    PROTECTED_RESOURCE_METADATA = "the protected resource metadata names the authorization server"
    SERVER_ORIGIN = "the origin of the MCP server is the authorization server"


@dataclass(frozen=True, slots=True)
class ProtectedResourceMetadata:
    """The metadata of a protected resource (https://www.rfc-editor.org/rfc/rfc9728#section-2).

    Args:
        resource: Resource identifier, used unchanged as the `resource` parameter of token requests.
        authorization_servers: Issuer identifiers of the authorization servers.
        scopes_supported: Scopes that the resource lists. Default: none.
    """

    resource: str
    authorization_servers: tuple[str, ...]
    scopes_supported: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuthorizationServerMetadata:
    """The metadata of an authorization server (https://www.rfc-editor.org/rfc/rfc8414#section-2).

    Args:
        issuer: Issuer identifier.
        token_endpoint: URL of the token endpoint.
        authorization_endpoint: URL of the authorization endpoint, if there is one.
        registration_endpoint: URL of the client registration endpoint, if there is one.
        token_endpoint_auth_methods: Methods of client authentication. Default: not listed.
        code_challenge_methods: PKCE methods. Default: not listed.
        scopes_supported: Scopes. Default: not listed.
        dpop_algorithms: Signature algorithms of DPoP proofs. Default: not listed.
        iss_parameter_supported: True if authorization responses have `iss` (https://www.rfc-editor.org/rfc/rfc9207).
            Default False.
        client_id_metadata_documents_supported: True if a client id may be the URL of the client's metadata. Default
            False.
        jwks_uri: URL of the key set, if there is one.
    """

    issuer: str
    token_endpoint: str
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    token_endpoint_auth_methods: tuple[str, ...] = ()
    code_challenge_methods: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] = ()
    dpop_algorithms: tuple[str, ...] = ()
    iss_parameter_supported: bool = False
    client_id_metadata_documents_supported: bool = False
    jwks_uri: str | None = None


def protected_resource_metadata_urls(server: str, metadata_url: str | None) -> list[str]:
    """Return the URLs at which to look for protected resource metadata, in order.

    `metadata_url` is the `resource_metadata` parameter of a challenge and excludes all others. Without it: the
    well-known URL of the path of the server, then that of its root
    (https://www.rfc-editor.org/rfc/rfc9728#section-3.1).
    """
    if metadata_url:
        return [metadata_url]
    root, path = f"{base_url(server)}{PROTECTED_RESOURCE_PATH}", urlsplit(server).path.rstrip("/")
    return [f"{root}{path}", root] if path else [root]


def authorization_server_metadata_urls(issuer: str, discovery: DiscoveryMethod) -> list[str]:
    """Return the URLs at which to look for the metadata of an authorization server, in order
    (https://www.rfc-editor.org/rfc/rfc8414#section-3.1)."""
    base, path = base_url(issuer), urlsplit(issuer).path.rstrip("/")
    if discovery is DiscoveryMethod.SERVER_ORIGIN:
        return [f"{base}{_OAUTH}"]
    if path:
        return [f"{base}{_OAUTH}{path}", f"{base}{_OPENID}{path}", f"{base}{path}{_OPENID}"]
    return [f"{base}{_OAUTH}", f"{base}{_OPENID}"]


def default_endpoints(server: str) -> AuthorizationServerMetadata:
    """Return the default endpoints of a server that is its own authorization server and has no metadata."""
    base = base_url(server)
    # Such a server cannot advertise PKCE; the code challenge is sent all the same.
    return AuthorizationServerMetadata(
        base, f"{base}/token", f"{base}/authorize", f"{base}/register", code_challenge_methods=("S256",)
    )


def read_protected_resource_metadata(document: object, server: str, policy: URLPolicy) -> ProtectedResourceMetadata:
    """Return the metadata in a JSON document. Raises AuthorizationError unless it describes this server
    (https://www.rfc-editor.org/rfc/rfc9728#section-3.3)."""
    fields = _object(document, f"the protected resource metadata of {redact_url(server)}")
    resource = _string(fields, "resource") or ""
    if not covers(resource, server):
        raise AuthorizationError(
            f"the protected resource metadata describes another resource than {redact_url(server)}"
        )
    listed = _strings(fields, "authorization_servers", is_strict=True)
    if not listed:
        raise AuthorizationError(f"the protected resource metadata of {redact_url(server)} has no authorization server")
    issuers, refused = list[str](), list[AuthorizationError]()
    for issuer in listed:
        try:
            issuers.append(policy.check(issuer))
        except AuthorizationError as error:
            refused.append(error)
    if not issuers:
        raise refused[0]
    return ProtectedResourceMetadata(resource, tuple(issuers), _strings(fields, "scopes_supported"))


def read_authorization_server_metadata(
    document: object, issuer: str, policy: URLPolicy, aliases: Sequence[str] = ()
) -> AuthorizationServerMetadata:
    """Return the metadata in a JSON document.

    Raises AuthorizationError unless its `issuer` is the expected one
    (https://www.rfc-editor.org/rfc/rfc8414#section-3.3) or one of the `aliases`.
    """
    fields = _object(document, f"the metadata of {redact_url(issuer)}")
    name = _string(fields, "issuer")
    if name is None or not any(is_same_issuer(name, known) for known in (issuer, *aliases)):
        shown = "no issuer" if name is None else f"another issuer, {name[:_MAX_SHOWN]!r}"
        raise AuthorizationError(
            f"the metadata of {redact_url(issuer)} names {shown}; if that is another name of the same authorization"
            f" server, add it to `aliases`: aliases={{{issuer!r}: [{(name or '')[:_MAX_SHOWN]!r}]}}"
        )
    token = _string(fields, "token_endpoint")
    if token is None:
        raise AuthorizationError(f"the metadata of {redact_url(issuer)} has no token_endpoint")
    authorize, register = _string(fields, "authorization_endpoint"), _string(fields, "registration_endpoint")
    for url in (token, authorize, register):
        if url is not None:
            policy.check(url)
    return AuthorizationServerMetadata(
        name,
        token,
        authorize,
        register,
        token_endpoint_auth_methods=_strings(fields, "token_endpoint_auth_methods_supported"),
        code_challenge_methods=_strings(fields, "code_challenge_methods_supported", is_strict=True),
        scopes_supported=_strings(fields, "scopes_supported"),
        dpop_algorithms=_strings(fields, "dpop_signing_alg_values_supported"),
        iss_parameter_supported=fields.get("authorization_response_iss_parameter_supported") is True,
        client_id_metadata_documents_supported=fields.get("client_id_metadata_document_supported") is True,
        jwks_uri=_string(fields, "jwks_uri"),
    )


def is_same_issuer(name: str, other: str) -> bool:
    """Return True if two issuer identifiers are equal, but for a slash that is the whole path of one of them.

    `https://a` and `https://a/` are one URL (https://www.rfc-editor.org/rfc/rfc3986#section-6.2.3), and so have one
    owner: nobody can pass for another issuer by it. All else is compared exactly, as RFC 8414 requires.
    """
    return name == other or _without_root(name) == _without_root(other)


def _without_root(issuer: str) -> str:
    authority = issuer.partition("://")[2]
    return issuer[:-1] if authority.find("/") == len(authority) - 1 > 0 else issuer


def covers(resource: str, server: str) -> bool:
    """Return True if a resource identifier is the URL of the server, or of a parent path at the same origin."""
    try:
        ours, theirs = urlsplit(resource), urlsplit(server)
        same_origin = origin(resource) == origin(server)
    except ValueError:
        return False
    if not same_origin or ours.username is not None or "#" in resource or (ours.query and ours.query != theirs.query):
        return False
    segments = ours.path.rstrip("/").split("/")
    return ".." not in segments and theirs.path.rstrip("/").split("/")[: len(segments)] == segments


def _object(document: object, name: str) -> Mapping[str, Any]:
    if not is_object(document):
        raise AuthorizationError(f"{name} must be a JSON object")
    return cast(Mapping[str, Any], document)


def _string(document: Mapping[str, Any], key: str) -> str | None:
    """Return a text of metadata; None for anything else: many servers write an empty text for nothing."""
    value = document.get(key)
    return value if isinstance(value, str) and value else None


def _strings(document: Mapping[str, Any], key: str, is_strict: bool = False) -> tuple[str, ...]:
    """Return a list of texts of metadata, without items that are none. A text is the list of its words, as the scopes
    of tokens are.

    With `is_strict`, what is not a list raises AuthorizationError: login depends on it.
    """
    value = document.get(key)
    if isinstance(value, str) and not is_strict:
        return tuple(value.split())
    if is_list(value):
        return tuple(item for item in value if isinstance(item, str) and item)
    if is_strict and value is not None:
        raise AuthorizationError(f"{key} in the metadata must be a list of strings")
    return ()


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
        if self._uses_resource_metadata(negotiated, metadata_url is not None):
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

    def _uses_resource_metadata(self, negotiated: NegotiatedRevision | None, is_named: bool) -> bool:
        """Return True if the server has such metadata: by its version, or because its challenge names it, as servers of
        HTTP+SSE do that were updated."""
        if self.discovery is not None:
            return self.discovery is DiscoveryMethod.PROTECTED_RESOURCE_METADATA
        return negotiated is None or negotiated.revision.http.resource_metadata or is_named

    def _may_be_legacy(self, negotiated: NegotiatedRevision | None) -> bool:
        """Return True if the client also accepts an MCP version without protected resource metadata. The negotiated
        version does not matter: old servers were updated without their login."""
        if self.discovery is not None or negotiated is None:
            return False
        return any(not revision.http.resource_metadata for revision in negotiated.alternatives())

    async def _issuer(
        self, issuers: Sequence[str], discovery: DiscoveryMethod, headers: Mapping[str, str]
    ) -> AuthorizationServerMetadata:
        trusted = [issuer for issuer in issuers if not self.issuers or self._trusts(issuer)]
        if not trusted:
            raise AuthorizationError(
                f"no authorization server of {redact_url(self.server)} is among the trusted `issuers`"
            )
        without = list[str]()
        # Only one without metadata is passed over: one that does not answer now may have issued the tokens in use.
        for issuer in trusted[:_MAX_ISSUERS]:
            urls = authorization_server_metadata_urls(issuer, discovery)
            document, found = await self.http.first_document(urls, ISSUER_MEMBERS, headers)
            if document is not None:
                aliases = [name for key, names in self.aliases.items() if is_same_issuer(key, issuer) for name in names]
                return read_authorization_server_metadata(document, issuer, self.http.policy, aliases)
            without.append(f"the authorization server {redact_url(issuer)} has no metadata (RFC 8414): {found}")
        if discovery is DiscoveryMethod.SERVER_ORIGIN:
            return default_endpoints(self.server)
        raise AuthorizationError("; ".join(without))

    def _trusts(self, issuer: str) -> bool:
        return any(is_same_issuer(issuer, trusted) for trusted in self.issuers)
