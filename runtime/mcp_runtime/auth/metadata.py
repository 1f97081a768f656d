"""What servers say of their authorization goes in; where to look, and what of it is acceptable, comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast
from urllib.parse import urlsplit

from ..errors import AuthorizationError
from ..http.urls import redact_url
from ..protocol.models import is_object
from .url_policy import URLPolicy

PROTECTED_RESOURCE_PATH: Final = "/.well-known/oauth-protected-resource"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"


class DiscoveryMethod(Enum):
    """Who says which authorization server is asked."""

    PROTECTED_RESOURCE_METADATA = "the metadata of the protected resource"
    SERVER_ORIGIN = "the server's own origin is its authorization server, with usual endpoints where it has no metadata"


@dataclass(frozen=True, slots=True)
class ProtectedResourceMetadata:
    """What a protected resource says of itself (RFC 9728). `name` is byte for byte what tokens are asked for."""

    resource: str
    authorization_servers: tuple[str, ...]
    scopes_supported: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuthorizationServerMetadata:
    """What an authorization server says of itself (RFC 8414)."""

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


def protected_resource_metadata_urls(server: str, hint: str | None) -> list[str]:
    """Where the metadata of a protected resource is, in order: where the 401 says and nowhere else, or at its path,
    then at its root."""
    if hint:
        return [hint]
    base, path = base_url(server), urlsplit(server).path.rstrip("/")
    return (
        [f"{base}{PROTECTED_RESOURCE_PATH}{path}", f"{base}{PROTECTED_RESOURCE_PATH}"]
        if path
        else [f"{base}{PROTECTED_RESOURCE_PATH}"]
    )


def authorization_server_metadata_urls(issuer: str, discovery: DiscoveryMethod) -> list[str]:
    """Where the metadata of an authorization server is, in order."""
    base, path = base_url(issuer), urlsplit(issuer).path.rstrip("/")
    if discovery is DiscoveryMethod.SERVER_ORIGIN:
        return [f"{base}{_OAUTH}"]
    if path:
        return [f"{base}{_OAUTH}{path}", f"{base}{_OPENID}{path}", f"{base}{path}{_OPENID}"]
    return [f"{base}{_OAUTH}", f"{base}{_OPENID}"]


def default_endpoints(server: str) -> AuthorizationServerMetadata:
    """Those of a server that is its own authorization server and has no metadata."""
    base = base_url(server)
    # Nobody could say what it supports: the challenge is sent all the same.
    return AuthorizationServerMetadata(
        base, f"{base}/token", f"{base}/authorize", f"{base}/register", code_challenge_methods=("S256",)
    )


def read_protected_resource_metadata(document: object, server: str, policy: URLPolicy) -> ProtectedResourceMetadata:
    """What a protected resource says, if it is this server's. Raises AuthorizationError."""
    said = _object(document, "of the protected resource")
    name = _text(said, "resource") or ""
    if not covers(name, server):
        raise AuthorizationError(f"the metadata is of another resource than {redact_url(server)}")
    issuers = _texts(said, "authorization_servers")
    if not issuers:
        raise AuthorizationError(f"the metadata of {redact_url(server)} names no authorization server")
    for each in issuers:
        policy.check(each)
    return ProtectedResourceMetadata(name, issuers, _texts(said, "scopes_supported"))


def read_authorization_server_metadata(
    document: object, expected: str, policy: URLPolicy, aliases: Sequence[str] = ()
) -> AuthorizationServerMetadata:
    """What an authorization server says, if it is the expected one (RFC 8414 3.3) or one of the aliases that were
    given for it. Raises AuthorizationError."""
    said = _object(document, "of the authorization server")
    name = _text(said, "issuer")
    if name is None or (name != expected and name not in aliases):
        raise AuthorizationError(f"the metadata of {redact_url(expected)} is of another issuer")
    token = _text(said, "token_endpoint")
    if token is None:
        raise AuthorizationError(f"{redact_url(expected)} has no token endpoint")
    authorize, register = _text(said, "authorization_endpoint"), _text(said, "registration_endpoint")
    for url in (token, authorize, register):
        if url is not None:
            policy.check(url)
    return AuthorizationServerMetadata(
        name,
        token,
        authorize,
        register,
        token_endpoint_auth_methods=_texts(said, "token_endpoint_auth_methods_supported"),
        code_challenge_methods=_texts(said, "code_challenge_methods_supported"),
        scopes_supported=_texts(said, "scopes_supported"),
        dpop_algorithms=_texts(said, "dpop_signing_alg_values_supported"),
        iss_parameter_supported=said.get("authorization_response_iss_parameter_supported") is True,
        client_id_metadata_documents_supported=said.get("client_id_metadata_document_supported") is True,
        jwks_uri=_text(said, "jwks_uri"),
    )


def covers(resource: str, server: str) -> bool:
    """Whether a resource is the server at a URL, or a part of its origin that the server is in."""
    try:
        mine, asked = urlsplit(resource), urlsplit(server)
        same = (mine.scheme, mine.hostname, _port(resource)) == (asked.scheme, asked.hostname, _port(server))
    except ValueError:
        return False
    if not same or mine.username is not None or "#" in resource or (mine.query and mine.query != asked.query):
        return False
    segments = mine.path.rstrip("/").split("/")
    return ".." not in segments and asked.path.rstrip("/").split("/")[: len(segments)] == segments


def base_url(url: str) -> str:
    """The origin of a URL, as it is written there."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _port(url: str) -> int | None:
    parts = urlsplit(url)
    return parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _object(document: object, what: str) -> Mapping[str, Any]:
    if not is_object(document):
        raise AuthorizationError(f"the metadata {what} is no JSON object")
    return cast(Mapping[str, Any], document)


def _text(document: Mapping[str, Any], key: str) -> str | None:
    value = document.get(key)
    if value is not None and not isinstance(value, str):
        raise AuthorizationError(f"{key} in the metadata is no string")
    return value


def _texts(document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = document.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in cast(list[object], value)):
        raise AuthorizationError(f"{key} in the metadata is no list of strings")
    return tuple(cast(list[str], value))
