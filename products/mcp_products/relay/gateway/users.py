"""The users of a gateway: the table `[auth]` of its file says whose tokens are accepted, and who has which role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp_products.auth.providers.provider import IdentityProvider
from mcp_products.auth.resource_server.protection import ResourceServer
from mcp_products.host.multi_client import entry_text
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import is_list, is_object

_LINES: Final = 'write provider = "keycloak" with its values, or issuers = ["https://login.example"]'
_LISTS: Final = ("issuers", "scopes", "scopes_supported", "audience")
_OF_SERVER: Final = ("scopes", "scopes_supported", "name", "roles")
_OF_TOKENS: Final = ("audience", "only_resource")


def resource_server_of(table: Mapping[str, Any]) -> ResourceServer:
    """Return the protection of a gateway. Raises LocalError for a table that cannot work, with the line to write."""
    if not isinstance(table.get("resource"), str):
        raise LocalError('[auth] needs the URL of the gateway as clients use it: write resource = "https://…/mcp"')
    for key in _LISTS:
        value: Any = table.get(key, [])
        if not is_list(value) or not all(isinstance(item, str) for item in value):
            raise LocalError(f'[auth] {key} is a list of texts: write {key} = ["…"]')
    if type(table.get("only_resource", False)) is not bool:
        raise LocalError("[auth] only_resource is true or false: write only_resource = true")
    if not is_object(table.get("roles", {})):
        raise LocalError('[auth] roles is a table: write roles = { admin = { claim = "groups", value = "admins" } }')
    if ("provider" in table) == ("issuers" in table):
        raise LocalError(f"[auth] has {'both' if 'provider' in table else 'neither'} of provider and issuers: {_LINES}")
    own = {key: table[key] for key in _OF_SERVER if key in table}
    rest = {key: value for key, value in table.items() if key not in (*_OF_SERVER, "resource")}
    try:
        if "issuers" in table:
            if other := next((key for key in rest if key != "issuers"), None):
                raise LocalError(f"{other!r} is a key of a provider: write provider, or remove it")
            return ResourceServer(table["resource"], table["issuers"], **own)
        tokens = {key: rest.pop(key) for key in _OF_TOKENS if key in rest}
        values = {key: entry_text(value, key) for key, value in rest.items() if key != "provider"}
        provider = IdentityProvider(entry_text(rest["provider"], "provider"), **values)
        return provider.resource_server(table["resource"], **own, **tokens)
    except LocalError as error:
        raise LocalError(f"[auth] {error}") from None
