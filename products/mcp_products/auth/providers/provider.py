"""An identity provider of the table: its addresses, how its tokens are verified, and what its owner sets up there."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import is_list, is_object
from mcp_runtime.session.interfaces import AuthenticatedUser
from mcp_runtime.usage.keywords import nearest

from ..resource_server.dpop import DPoPVerifier
from ..resource_server.protection import ResourceServer
from ..resource_server.roles import RoleRule, Roles
from ..resource_server.verifiers import AnyVerifier, JWTVerifier, TokenVerifier
from .lookup import LookupVerifier

_TABLE: Final = Path(__file__).with_name("table.toml")
_SECRETS: Final = ("client_secret",)
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?")
_PART: Final = re.compile(r"[A-Za-z0-9._~-]+")


@cache
def providers() -> Mapping[str, Mapping[str, Any]]:
    """Return the rows of the table by name."""
    return tomllib.loads(_TABLE.read_text(encoding="utf-8"))


class IdentityProvider:
    """A provider of the table, with the values of one account. It makes the `auth=` of servers, and keywords of
    clients."""

    def __init__(self, provider: str | Mapping[str, Any], **values: str) -> None:
        """Look up a provider. Raises LocalError for an unknown one, and for a value that is missing or wrong.

        Args:
            provider: The name of a row, such as "auth0", or a row of your own with the same keys.
            values: What the row needs, such as `domain="example.us.auth0.com"`.
        """
        if isinstance(provider, str) and provider not in providers():
            known = nearest(provider, sorted(providers()), "providers")
            raise LocalError(f"IdentityProvider(): there is no provider {provider!r}; {known}")
        row = providers()[provider] if isinstance(provider, str) else provider
        needs: Mapping[str, str] = row["needs"]
        line = ", ".join(f'{name}="{example}"' for name, example in needs.items())
        self.name = provider if isinstance(provider, str) else row["title"]
        for name, value in needs.items():
            _check_value(name, value, values.get(name), f'write IdentityProvider("{self.name}", {line})')
        if other := next((name for name in values if name not in needs), None):
            raise LocalError(f"IdentityProvider(): {self.name!r} has no value {other!r}: write {line}")
        self._row = cast("Mapping[str, Any]", _filled({**row, "needs": {}, "setup": []}, values))
        self._values = values
        self.title: str = row["title"]
        self.issuer: str = self._row["issuer"]
        self.setup: tuple[str, ...] = tuple(row["setup"])
        """What the owner of a server sets up at the provider."""

    def __repr__(self) -> str:
        return f"IdentityProvider({self.name!r})"  # Without its values, which may be secret.

    def verifier(
        self, resource: str, *, audience: str | Sequence[str] = (), only_resource: bool = False
    ) -> TokenVerifier:
        """Return what verifies the tokens of this provider for a server.

        Args:
            resource: URL of the endpoint as clients know it.
            audience: Accepted audiences. Default: those of the table, as a rule the URL.
            only_resource: True if this account issues tokens for this server only. It has to be said where tokens do
                not name their server.

        Raises LocalError without it.
        """
        row = self._row
        if not row.get("bound", True) and not only_resource:
            raise LocalError(
                f"tokens of {self.title} do not say for which server they are, so that those of every other service of"
                " this account would be accepted: if it has tokens for this server only, write only_resource=True"
            )
        given = [audience] if isinstance(audience, str) else list(audience)
        if lookup := row.get("lookup"):
            id, secret = self._values["client_id"], self._values.get("client_secret", "")
            audiences = _audiences(row, given, resource)
            return LookupVerifier(lookup, client_id=id, client_secret=secret, audience=audiences, issuer=self.issuer)
        forms = [{**row, "issuer": row.get("token_issuer", self.issuer)}, *row.get("also", [])]
        verifiers = [
            JWTVerifier(
                form["issuer"],
                audience=_audiences(form, given, resource),
                audience_claim=form.get("audience_claim", "aud"),
                jwks_uri=form.get("jwks"),
            )
            for form in forms
        ]
        return _TableVerifier(AnyVerifier(*verifiers), row.get("claims", {}), row.get("scope_claims", ()))

    def resource_server(
        self,
        resource: str,
        *,
        audience: str | Sequence[str] = (),
        only_resource: bool = False,
        scopes: Sequence[str] = (),
        scopes_supported: Sequence[str] | None = None,
        name: str | None = None,
        dpop: DPoPVerifier | None = None,
        roles: Mapping[str, Any] | None = None,
    ) -> ResourceServer:
        """Return the `auth=` of a server whose users log in at this provider.

        Args:
            resource: URL of the endpoint as clients know it.
            audience: As for `verifier`.
            only_resource: As for `verifier`.
            scopes: As for `ResourceServer`, and so are the others.
            scopes_supported: See there.
            name: See there.
            dpop: See there.
            roles: As for `ResourceServer`. A value without a claim is one of the claim where this provider has roles,
                such as `{"admin": "mcp-admins"}`.

        Raises LocalError for values that cannot work.
        """
        verifier = self.verifier(resource, audience=audience, only_resource=only_resource)
        return ResourceServer(
            resource,
            [self.issuer],
            verifier=verifier,
            scopes=scopes,
            scopes_supported=scopes_supported,
            name=name,
            dpop=dpop,
            roles=self._rules(roles or {}),
        )

    def client_settings(self) -> dict[str, Any]:
        """Return keywords of `OAuthClientProvider` for clients of servers whose users log in at this provider.

        They allow this issuer alone, and say what its metadata does not.
        """
        settings: dict[str, Any] = {"issuers": [self.issuer]}
        if self._row.get("resource") == "refused":
            settings["resource_indicator"] = False
        if self._row.get("pkce") == "unlisted":
            settings["pkce"] = [self.issuer]
        return settings

    def _rules(self, roles: Mapping[str, Any]) -> dict[str, RoleRule]:
        """Return rules with their claims."""
        claim: str | None = self._row.get("roles")
        rules: dict[str, RoleRule] = {}
        for name, rule in roles.items():
            if claim is None and not is_object(rule):
                raise LocalError(
                    f"roles: tokens of {self.title} have no claim for roles: write the claim of {name!r}, as in"
                    ' {"claim": "email", "value": "ada@example.com"}'
                )
            rules[name] = rule if is_object(rule) else {"claim": claim, "value": rule}
        Roles(rules)
        return rules


class _TableVerifier:
    """Accepts tokens that another verifier accepts, and that have some claims; reads scopes of further claims."""

    def __init__(self, verifier: TokenVerifier, claims: Mapping[str, str], scope_claims: Sequence[str]) -> None:
        self._verifier = verifier
        self._claims = claims
        self._scope_claims = scope_claims

    async def verify(self, token: str) -> AuthenticatedUser | None:
        """Return the user of a token; None if it is not accepted. Raises what the other verifier raises."""
        user = await self._verifier.verify(token)
        if user is None:
            return None
        for name, value in self._claims.items():
            found = user.claims.get(name)
            if not isinstance(found, str) or not found or (value and found != value):
                return None
        further = (user.claims.get(name) for name in self._scope_claims)
        lists = (items for items in further if is_list(items))
        scopes = {item for items in lists for item in items if isinstance(item, str)}
        return replace(user, scopes=user.scopes | scopes)


def _audiences(form: Mapping[str, Any], given: Sequence[str], resource: str) -> list[str]:
    return list(given) or [text.replace("{resource}", resource) for text in form["audience"]]


def _check_value(name: str, example: str, value: object, line: str) -> None:
    if not isinstance(value, str) or not value:
        raise LocalError(f"IdentityProvider(): {name} is missing, a text such as {example!r}: {line}")
    if name in _SECRETS:
        return
    if name == "domain" and not _HOST.fullmatch(value):
        raise LocalError(f"IdentityProvider(): domain is a host without https:// and without a path: {line}")
    if not (_HOST if name == "domain" else _PART).fullmatch(value):
        raise LocalError(f"IdentityProvider(): {name} stands in addresses, so that {value!r} cannot be one: {line}")


def _filled(item: Any, values: Mapping[str, str]) -> Any:
    """Return a row with the values in the place of their names."""
    if isinstance(item, str):
        for name, value in values.items():
            item = item.replace(f"{{{name}}}", value)
        return item
    if is_object(item):
        return {key: _filled(part, values) for key, part in item.items()}
    return [_filled(part, values) for part in item] if is_list(item) else item
