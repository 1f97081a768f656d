"""The metadata of a client goes in, as it came; a client comes out, or Refused (RFC 7591). No clock, no I/O."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from ..wire import is_list, is_object
from .records import CODE, REFRESH, Client, Error, Origin, Refused, digest
from .redirects import check_redirect
from .requests import scopes_of

METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
_GRANTS: Final = (CODE, REFRESH)
_MOST_REDIRECTS: Final = 10
_LONGEST_NAME: Final = 100
_DEEPEST: Final = 16
# Controls, formats (which turn the direction of text), surrogates and private characters say nothing to a person.
_UNSEEN: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def read_registration(body: bytes) -> dict[str, Any]:
    """The JSON object of a registration. Raises Refused."""
    try:
        said = json.loads(body.decode()) if body.count(b"[") + body.count(b"{") < 1000 else None
    except (ValueError, RecursionError):
        said = None
    if not is_object(said):
        raise Refused(Error.INVALID_CLIENT_METADATA, "the metadata of a client is a JSON object")
    return said


def client_of(
    said: Mapping[str, Any], id: str, offered: Sequence[str], origin: Origin, made: float, secret: str | None = None
) -> Client:
    """The client that metadata describe; what is not of use here is passed over. Raises Refused."""
    redirects = said.get("redirect_uris")
    if not is_list(redirects) or not 1 <= len(redirects) <= _MOST_REDIRECTS:
        raise Refused(Error.INVALID_REDIRECT_URI, f"a client has 1 to {_MOST_REDIRECTS} redirect_uris")
    responses = _texts(said, "response_types", ("code",))
    if "code" not in responses:
        raise Refused(Error.INVALID_CLIENT_METADATA, "response_types has to have code")
    grants = tuple(each for each in _texts(said, "grant_types", (CODE,)) if each in _GRANTS)
    if CODE not in grants:
        raise Refused(Error.INVALID_CLIENT_METADATA, f"grant_types has to have {CODE}")
    scope = _text(said, "scope")
    return Client(
        id,
        tuple(check_redirect(each) for each in redirects),
        name_of(_text(said, "client_name") or ""),
        digest(secret) if secret else None,
        grants,
        None if scope is None else _scopes(scope, offered),
        origin=origin,
        made=made,
    )


def method_of(said: Mapping[str, Any]) -> str:
    """How the client is to show itself; what a client that says nothing means, is in RFC 7591 2. Raises Refused."""
    method = _text(said, "token_endpoint_auth_method") or "client_secret_basic"
    if method not in METHODS:
        raise Refused(Error.INVALID_CLIENT_METADATA, f"token_endpoint_auth_method is one of {', '.join(METHODS)}")
    return method


def answer_to(client: Client, method: str, secret: str | None) -> dict[str, Any]:
    """What a client that registered is told (RFC 7591 3.2.1)."""
    said: dict[str, Any] = {
        "client_id": client.id,
        "client_id_issued_at": int(client.made),
        "client_name": client.name,
        "redirect_uris": list(client.redirects),
        "grant_types": list(client.grants),
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    }
    if client.scopes is not None:
        said["scope"] = " ".join(client.scopes)
    return said if secret is None else {**said, "client_secret": secret, "client_secret_expires_at": 0}


def name_of(text: str) -> str:
    """A name as a person may see it. Raises Refused for one that is made to deceive the eye."""
    if len(text) > _LONGEST_NAME or any(unicodedata.category(each) in _UNSEEN for each in text):
        raise Refused(
            Error.INVALID_CLIENT_METADATA, f"client_name has at most {_LONGEST_NAME} characters that are seen"
        )
    return text.strip()


def _scopes(text: str, offered: Sequence[str]) -> tuple[str, ...]:
    try:
        return scopes_of(text, offered, offered)
    except Refused:
        # Which ones a client may ask for is said again when it does.
        return tuple(each for each in offered if each in text.split(" "))


def _text(said: Mapping[str, Any], key: str) -> str | None:
    value = said.get(key)
    if value is not None and not isinstance(value, str):
        raise Refused(Error.INVALID_CLIENT_METADATA, f"{key} is a text")
    return value


def _texts(said: Mapping[str, Any], key: str, usual: Sequence[str]) -> Sequence[str]:
    value = said.get(key)
    if value is None:
        return usual
    if not is_list(value) or len(value) > _DEEPEST or not all(isinstance(each, str) for each in value):
        raise Refused(Error.INVALID_CLIENT_METADATA, f"{key} is a list of texts")
    return cast(list[str], value)
