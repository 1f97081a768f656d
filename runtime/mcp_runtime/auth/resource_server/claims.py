"""Claims of an access token, from a JWT or from introspection: check them, and read the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ...protocol.models import is_list
from ...session.identity import AuthenticatedUser
from ..metadata import is_same_issuer
from .dpop import confirmation_thumbprint, time_claim


class InvalidClaimsError(Exception):
    """A token is not valid for this resource. The text is for the log and contains nothing of the token."""


@dataclass(frozen=True, slots=True)
class ClaimRequirements:
    """The claims that a valid token has.

    Args:
        issuer: The exact `iss`; None if it is not checked.
        audiences: Accepted values of `aud`; None if it is not checked.
        leeway: Seconds by which clocks may differ.
        require_all: True if `exp` and the checked `iss` must be present. Default True.
    """

    issuer: str | None
    audiences: frozenset[str] | None
    leeway: float
    require_all: bool = True


def read_user(claims: Mapping[str, Any], required: ClaimRequirements, now: float, token: str) -> AuthenticatedUser:
    """Return the user of a token. Raises InvalidClaimsError. `now` is in seconds since the epoch."""
    issuer = claims.get("iss")
    is_other = not isinstance(issuer, str) or not is_same_issuer(issuer, required.issuer or "")
    if required.issuer is not None and is_other and (required.require_all or issuer is not None):
        raise InvalidClaimsError("the token has another issuer")
    if required.audiences is not None and not required.audiences & _strings(claims, "aud", split=False):
        raise InvalidClaimsError("the token is for another audience")
    _check_times(claims, required, now)
    subject, client_id = _string(claims, "sub"), _string(claims, "client_id") or _string(claims, "azp")
    if not subject and not client_id:
        raise InvalidClaimsError("the token has neither sub nor client_id")
    scopes = _strings(claims, "scope") or _strings(claims, "scp")
    try:
        thumbprint = confirmation_thumbprint(claims)
    except ValueError:
        raise InvalidClaimsError("the token is bound to a key by a confirmation method other than jkt") from None
    # Some introspection responses repeat the token.
    public = {name: value for name, value in claims.items() if value != token}
    return AuthenticatedUser(
        subject, client_id, scopes, required.issuer or str(issuer or ""), public, thumbprint, _time(claims, "exp")
    )


def _check_times(claims: Mapping[str, Any], required: ClaimRequirements, now: float) -> None:
    exp, nbf, iat = (_time(claims, name) for name in ("exp", "nbf", "iat"))
    if exp is None and required.require_all:
        raise InvalidClaimsError("the token has no exp")
    if exp is not None and not now < exp + required.leeway:
        raise InvalidClaimsError("the token has expired")
    if any(start is not None and not start - required.leeway <= now for start in (nbf, iat)):
        raise InvalidClaimsError("the token is not valid yet")


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    try:
        return time_claim(claims, name)
    except ValueError as error:
        raise InvalidClaimsError(str(error)) from None


def _string(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidClaimsError(f"{name} is not a string")
    return value


def _strings(claims: Mapping[str, Any], name: str, split: bool = True) -> frozenset[str]:
    """Return the items of a list claim. A string counts as a list of words, or with `split=False` as one item."""
    value: object = claims.get(name)
    if value is None:
        return frozenset()
    if isinstance(value, str):
        return frozenset(value.split() if split else [value])
    if not is_list(value) or not all(isinstance(item, str) for item in value):
        raise InvalidClaimsError(f"{name} is not a list of strings")
    return frozenset(cast(list[str], value))
