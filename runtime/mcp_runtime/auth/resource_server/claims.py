"""What a token says of itself goes in, by JWT or by introspection; the user comes out, or why it is not good here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ...protocol.models import is_list
from ...session.identity import AuthenticatedUser
from .dpop import confirmation_thumbprint, time_claim


class InvalidClaimsError(Exception):
    """A token is not good here; the text is for the log, and nothing of the token is in it."""


@dataclass(frozen=True, slots=True)
class ClaimRequirements:
    """What a good token says: its `issuer` exactly, and one of the `audiences`; None where that is not looked at.
    `leeway`: seconds that clocks may differ. `complete`: it has to say when it ends and who gave it."""

    issuer: str | None
    audiences: frozenset[str] | None
    leeway: float
    require_all: bool = True


def read_user(claims: Mapping[str, Any], required: ClaimRequirements, now: float, token: str) -> AuthenticatedUser:
    """Whose token it is. Raises InvalidClaimsError."""
    issuer = claims.get("iss")
    if required.issuer is not None and (issuer != required.issuer) and (required.require_all or issuer is not None):
        raise InvalidClaimsError("it is of another issuer")
    if required.audiences is not None and not required.audiences & _texts(claims, "aud", required=True):
        raise InvalidClaimsError("it is for another audience")
    _check_times(claims, required, now)
    subject, client = _text(claims, "sub"), _text(claims, "client_id") or _text(claims, "azp")
    if not subject and not client:
        raise InvalidClaimsError("it does not say whose it is")
    scopes = _texts(claims, "scope") or _texts(claims, "scp")
    try:
        bound = confirmation_thumbprint(claims)
    except ValueError:
        raise InvalidClaimsError("it is bound to something that cannot be checked") from None
    told = {name: value for name, value in claims.items() if value != token}
    return AuthenticatedUser(
        subject, client, scopes, required.issuer or str(issuer or ""), told, bound, _time(claims, "exp")
    )


def _check_times(claims: Mapping[str, Any], required: ClaimRequirements, now: float) -> None:
    ends, begins, given = (_time(claims, name) for name in ("exp", "nbf", "iat"))
    if ends is None and required.require_all:
        raise InvalidClaimsError("it does not say when it ends")
    if ends is not None and not now < ends + required.leeway:
        raise InvalidClaimsError("it has expired")
    if any(each is not None and not each - required.leeway <= now for each in (begins, given)):
        raise InvalidClaimsError("it is not good yet")


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    try:
        return time_claim(claims, name)
    except ValueError as fault:
        raise InvalidClaimsError(str(fault)) from None


def _text(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidClaimsError(f"{name} is no text")
    return value


def _texts(claims: Mapping[str, Any], name: str, required: bool = False) -> frozenset[str]:
    """A list of texts, or one text of words; `whole`: a text is one of its own, spaces and all."""
    value: object = claims.get(name)
    if value is None:
        return frozenset()
    if isinstance(value, str):
        return frozenset([value] if required else value.split())
    if not is_list(value) or not all(isinstance(each, str) for each in value):
        raise InvalidClaimsError(f"{name} is no list of texts")
    return frozenset(cast(list[str], value))
