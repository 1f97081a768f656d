"""What servers say of their authorization goes in; where to look, and what of it is acceptable, comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast
from urllib.parse import urlsplit

from ..errors import NotAuthorized
from ..http.asking import plain
from ..wire import is_object
from .policy import UrlPolicy

RESOURCE: Final = "/.well-known/oauth-protected-resource"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"


class Discovery(Enum):
    """Who says which authorization server is asked."""

    BY_RESOURCE = "the metadata of the protected resource"
    AT_SERVER = "the server's own origin is its authorization server, with usual endpoints where it has no metadata"


@dataclass(frozen=True, slots=True)
class Resource:
    """What a protected resource says of itself (RFC 9728). `name` is byte for byte what tokens are asked for."""

    name: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Issuer:
    """What an authorization server says of itself (RFC 8414)."""

    name: str
    token: str
    authorize: str | None = None
    register: str | None = None
    methods: tuple[str, ...] = ()
    challenges: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    proof_algorithms: tuple[str, ...] = ()
    says_iss: bool = False
    knows_documents: bool = False
    keys: str | None = None


def resource_urls(server: str, hinted: str | None) -> list[str]:
    """Where the metadata of a protected resource is, in order: where the 401 says and nowhere else, or at its path,
    then at its root."""
    if hinted:
        return [hinted]
    base, path = base_of(server), urlsplit(server).path.rstrip("/")
    return [f"{base}{RESOURCE}{path}", f"{base}{RESOURCE}"] if path else [f"{base}{RESOURCE}"]


def issuer_urls(issuer: str, discovery: Discovery) -> list[str]:
    """Where the metadata of an authorization server is, in order."""
    base, path = base_of(issuer), urlsplit(issuer).path.rstrip("/")
    if discovery is Discovery.AT_SERVER:
        return [f"{base}{_OAUTH}"]
    if path:
        return [f"{base}{_OAUTH}{path}", f"{base}{_OPENID}{path}", f"{base}{path}{_OPENID}"]
    return [f"{base}{_OAUTH}", f"{base}{_OPENID}"]


def usual_endpoints(server: str) -> Issuer:
    """Those of a server that is its own authorization server and has no metadata."""
    base = base_of(server)
    # Nobody could say what it supports: the challenge is sent all the same.
    return Issuer(base, f"{base}/token", f"{base}/authorize", f"{base}/register", challenges=("S256",))


def read_resource(document: object, server: str, policy: UrlPolicy) -> Resource:
    """What a protected resource says, if it is this server's. Raises NotAuthorized."""
    said = _object(document, "of the protected resource")
    name = _text(said, "resource") or ""
    if not covers(name, server):
        raise NotAuthorized(f"the metadata is of another resource than {plain(server)}")
    issuers = _texts(said, "authorization_servers")
    if not issuers:
        raise NotAuthorized(f"the metadata of {plain(server)} names no authorization server")
    for each in issuers:
        policy.check(each)
    return Resource(name, issuers, _texts(said, "scopes_supported"))


def read_issuer(document: object, expected: str, policy: UrlPolicy, aliases: Sequence[str] = ()) -> Issuer:
    """What an authorization server says, if it is the expected one (RFC 8414 3.3) or one of the aliases that were
    given for it. Raises NotAuthorized."""
    said = _object(document, "of the authorization server")
    name = _text(said, "issuer")
    if name is None or (name != expected and name not in aliases):
        raise NotAuthorized(f"the metadata of {plain(expected)} is of another issuer")
    token = _text(said, "token_endpoint")
    if token is None:
        raise NotAuthorized(f"{plain(expected)} has no token endpoint")
    authorize, register = _text(said, "authorization_endpoint"), _text(said, "registration_endpoint")
    for url in (token, authorize, register):
        if url is not None:
            policy.check(url)
    return Issuer(
        name,
        token,
        authorize,
        register,
        methods=_texts(said, "token_endpoint_auth_methods_supported"),
        challenges=_texts(said, "code_challenge_methods_supported"),
        scopes=_texts(said, "scopes_supported"),
        proof_algorithms=_texts(said, "dpop_signing_alg_values_supported"),
        says_iss=said.get("authorization_response_iss_parameter_supported") is True,
        knows_documents=said.get("client_id_metadata_document_supported") is True,
        keys=_text(said, "jwks_uri"),
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


def base_of(url: str) -> str:
    """The origin of a URL, as it is written there."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _port(url: str) -> int | None:
    parts = urlsplit(url)
    return parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _object(document: object, what: str) -> Mapping[str, Any]:
    if not is_object(document):
        raise NotAuthorized(f"the metadata {what} is no JSON object")
    return cast(Mapping[str, Any], document)


def _text(said: Mapping[str, Any], key: str) -> str | None:
    value = said.get(key)
    if value is not None and not isinstance(value, str):
        raise NotAuthorized(f"{key} in the metadata is no string")
    return value


def _texts(said: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = said.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in cast(list[object], value)):
        raise NotAuthorized(f"{key} in the metadata is no list of strings")
    return tuple(cast(list[str], value))
