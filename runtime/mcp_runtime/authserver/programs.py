"""Requests of programs go in: for metadata, to register, for tokens, to end them, what they are worth; JSON comes out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from .clients import Clients, Quota
from .records import CODE, CREDENTIALS, REFRESH, Client, Error, Refused
from .registration import METHODS, read_registration
from .requests import Fields, check_shown, shown
from .tokens import Tokens, Worth
from .web import Incoming, Reply


class Programs:
    """The endpoints that programs ask."""

    def __init__(
        self,
        issuer: str,
        scopes: Sequence[str],
        clients: Clients,
        tokens: Tokens,
        quota: Quota | None,
        documents: bool,
        worth: Callable[[str], Awaitable[Worth | None]],
    ) -> None:
        self._issuer = issuer
        self._scopes = scopes
        self._clients = clients
        self._tokens = tokens
        self._quota = quota
        self._documents = documents
        self._worth = worth

    async def metadata(self, request: Incoming) -> Reply:
        """What this server says of itself (RFC 8414)."""
        at = self._issuer
        shows = list(METHODS)
        said: dict[str, Any] = {
            "issuer": at,
            "authorization_endpoint": f"{at}/authorize",
            "token_endpoint": f"{at}/token",
            "revocation_endpoint": f"{at}/revoke",
            "introspection_endpoint": f"{at}/introspect",
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": [CODE, REFRESH, CREDENTIALS],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": shows,
            "revocation_endpoint_auth_methods_supported": shows,
            "introspection_endpoint_auth_methods_supported": shows[1:],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": self._documents,
        }
        if self._quota is not None:
            said["registration_endpoint"] = f"{at}/register"
        if self._scopes:
            said["scopes_supported"] = list(self._scopes)
        return Reply.json(said)

    async def register(self, request: Incoming) -> Reply:
        """Register a client (RFC 7591). Raises Refused."""
        if self._quota is None:
            raise Refused(Error.INVALID_REQUEST, "clients do not register here", 404)
        if not self._quota.take(request.address):
            raise Refused(Error.TEMPORARILY_UNAVAILABLE, "too many clients registered from this address", 429)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refused(Error.INVALID_CLIENT_METADATA, "the body is application/json")
        return Reply.json(await self._clients.register(read_registration(request.body)), 201)

    async def token(self, request: Incoming) -> Reply:
        """Give tokens (RFC 6749 3.2). Raises Refused."""
        client, said = await self._client(request)
        return Reply.json(await self._tokens.answer(client, said))

    async def revoke(self, request: Incoming) -> Reply:
        """End what a token is of (RFC 7009). Raises Refused."""
        client, said = await self._client(request)
        if "token" not in said:
            raise Refused(Error.INVALID_REQUEST, "there is no token to revoke")
        await self._tokens.end(client, said["token"])
        return Reply.json({})

    async def introspect(self, request: Incoming) -> Reply:
        """Say to a resource server what a token is worth (RFC 7662). Raises Refused."""
        client, said = await self._client(request)
        if not client.introspects or client.secret is None:
            raise Refused(Error.UNAUTHORIZED_CLIENT, "this client may not ask what tokens are worth", 403)
        found = await self._worth(said.get("token", ""))
        return Reply.json({"active": False} if found is None else {"active": True, **claims(found, self._issuer)})

    async def _client(self, request: Incoming) -> tuple[Client, Fields]:
        """The client, once it has shown itself, and what it says."""
        said = request.form()
        who = shown(request.headers, said)
        return check_shown(await self._clients.find(who.id), who), said


def claims(worth: Worth, issuer: str) -> Mapping[str, Any]:
    """What a token says, as claims of RFC 7662 2.2; `sid` is its grant."""
    return {
        "iss": issuer,
        "sub": worth.grant.user,
        "client_id": worth.grant.client,
        "aud": worth.grant.resource,
        "scope": " ".join(worth.scopes),
        "exp": int(worth.expires),
        "sid": worth.grant.id,
        "token_type": "Bearer",
    }
