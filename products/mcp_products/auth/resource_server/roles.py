"""Roles by claim: scopes that a resource server grants itself, by what a token says of its user."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import is_list, is_object
from mcp_runtime.session.interfaces import AuthenticatedUser

ROLE: Final = "role:"
"""What the scope of a role begins with. No authorization server issues such scopes: those of tokens are dropped."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_RULE: Final = 'roles={"admin": {"claim": "groups", "value": "mcp-admins"}}'

Value = str | int | bool
RoleRule = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Role:
    """Who has a role: whose claim has one of some values.

    Args:
        claim: The name of the claim, or its path; or the names of a path.
        values: The values; one is enough.
    """

    claim: str | tuple[str, ...]
    values: tuple[Value, ...]

    def holds(self, claims: Mapping[str, Any]) -> bool:
        """Return True if the claims give the role."""
        found = claim_at(claims, self.claim)
        items: list[Any] = found if is_list(found) else [found]
        # `True == 1` in Python, and not in JSON.
        return any(type(item) is type(value) and item == value for item in items for value in self.values)


class Roles:
    """The roles of an endpoint, each by a claim. A user with the role `admin` has the scope `role:admin`."""

    def __init__(self, rules: Mapping[str, RoleRule], claim: str | None = None) -> None:
        """Read the rules. Raises LocalError for one that cannot work, with the line to write.

        Args:
            rules: By name of the role: a claim and the value, or several values, that it has to have.
            claim: The claim of a rule that has only values. Default None: each rule has a claim.
        """
        self._roles = {f"{ROLE}{_checked_name(name)}": _read(name, rule, claim) for name, rule in rules.items()}

    def __bool__(self) -> bool:
        """Return True if there are roles."""
        return bool(self._roles)

    def granted(self, user: AuthenticatedUser) -> AuthenticatedUser:
        """Return a user with the scopes of the roles that the claims of the token give, and with no others."""
        if not self._roles:
            return user
        own = {scope for scope in user.scopes if not scope.startswith(ROLE)}
        own |= {scope for scope, role in self._roles.items() if role.holds(user.claims)}
        return replace(user, scopes=frozenset(own))

    def issued(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Return the scopes that an authorization server issues: all but those of roles."""
        return tuple(scope for scope in scopes if not (self._roles and scope.startswith(ROLE)))

    def check(self, scopes: Iterable[str], where: str) -> None:
        """Raise LocalError for the scope of a role that no rule defines."""
        unknown = [] if not self._roles else [name for name in scopes if name.startswith(ROLE)]
        if wrong := next((name for name in unknown if name not in self._roles), None):
            known = ", ".join(sorted(self._roles))
            raise LocalError(f"{where}: {wrong!r} is the scope of a role that no rule defines; defined are {known}")


def claim_at(claims: Mapping[str, Any], claim: str | tuple[str, ...]) -> Any:
    """Return the value of a claim; None without it.

    A name that the token has is that claim, dots and slashes included, as in `https://example.com/roles`. Otherwise
    dots lead into objects, as in `realm_access.roles`. A tuple leads into objects whose names have dots.
    """
    if isinstance(claim, str) and claim in claims:
        return claims[claim]
    found: Any = claims
    for name in claim.split(".") if isinstance(claim, str) else claim:
        if not is_object(found):
            return None
        found = found.get(name)
    return found


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise LocalError(f"roles: {name!r} is not a name of a role: use letters, digits and . _ - as in {_RULE}")
    return name


def _read(name: str, rule: Any, default: str | None) -> _Role:
    if default is not None and not is_object(rule):
        rule = {"claim": default, "value": rule}
    if not is_object(rule) or not rule.keys() <= {"claim", "value"} or "value" not in rule:
        raise LocalError(f"roles: {name!r} has no rule of a claim and a value: write {_RULE}")
    claim, value = rule.get("claim", default), rule["value"]
    path = tuple(claim) if is_list(claim) else claim
    if not path or not all(isinstance(part, str) and part for part in ([path] if isinstance(path, str) else path)):
        raise LocalError(
            f"roles: the claim of {name!r} is the name of a claim, a path or a list of names: write"
            ' {"claim": "realm_access.roles", …}'
        )
    values = tuple(value) if is_list(value) else (value,)
    if not values or not all(isinstance(item, Value) for item in values) or "" in values:
        raise LocalError(f"roles: the value of {name!r} is a text, a number or a list of them: write {_RULE}")
    return _Role(path, values)
