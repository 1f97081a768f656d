"""A request to a server that wants a token goes in, the same with a token goes out, however that was had."""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

import httpx2

from ..errors import LocalError, NotAuthorized, Unreachable
from ..http.asking import SPOKEN, Spoken, origin
from .asking import Asking
from .dpop import Proofs
from .finding import Finding
from .grants import Grant, Wanted
from .metadata import Discovery, Issuer, Resource
from .policy import UrlPolicy, is_loopback
from .rules import challenges, scopes_to_ask
from .store import InMemory, Kept, Registered, Storage, Token
from .tokens import TokenEndpoint

_MOST_TOKENS: Final = 3  # Tokens asked for on behalf of one request.
_EARLY: Final = 10.0  # Seconds before its end a token is renewed.


class OAuth(httpx2.Auth):
    """Authorization for one MCP server, to give to `Reach(auth=…)`. On a 401, or a 403 that asks for more scopes, it
    finds the authorization server, gets a token by `grant` and sends the request again. Tokens go to the origin of
    `server` and to nowhere else. Raises NotAuthorized where something it is told is not safe.

    `discovery`: who says which authorization server is asked; None for what the revision of the request has.
    `issuers`: if any are given, only these authorization servers are used. `aliases`: other names an issuer may give
    itself. `policy`: which URLs are asked; by default public ones, and this machine if the server is on it. `bound`:
    tokens have to be bound to a key of this process (DPoP). `tls`: which certificates authorization servers may have.
    """

    def __init__(
        self,
        server: str,
        grant: Grant,
        *,
        storage: Storage | None = None,
        discovery: Discovery | None = None,
        issuers: Sequence[str] = (),
        aliases: Mapping[str, Sequence[str]] | None = None,
        policy: UrlPolicy | None = None,
        bound: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(server)
        own = frozenset({f"{parts.scheme}://{parts.netloc}".lower()})
        policy = policy or UrlPolicy(local=is_loopback(parts.hostname or ""), private=own)
        policy.check(server)
        self._server = server
        self._grant = grant
        self._storage = storage or InMemory()
        self._asking = Asking(policy, tls)
        self._finding = Finding(self._asking, server, discovery, issuers, aliases or {})
        self._spoken: Spoken | None = None
        self._proofs = Proofs() if bound else None
        self._hint: str | None = None
        self._challenged: str | None = None
        self._asked: set[str] = set()

    @property
    def patience(self) -> float:
        """Seconds that a person may take to log in, before a request is answered."""
        return self._grant.patience

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        raise LocalError("authorization is for asynchronous clients of HTTP")

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with a token, and again while a better one can be had."""
        if origin(str(request.url)) != origin(self._server):
            yield request
            return
        self._spoken = request.extensions.get(SPOKEN)
        token = await self._held()
        with_nonce = fresh = False
        for left in reversed(range(_MOST_TOKENS + 1)):
            self._sign(request, token)
            response = yield request
            said = challenges(", ".join(response.headers.get_list("www-authenticate")))
            new = self._proofs is not None and self._proofs.heed(str(request.url), response.headers.get("dpop-nonce"))
            challenge = said.get("dpop") or said.get("bearer") or {}
            if not left:
                return
            if response.status_code == 401 and new and not with_nonce and token is not None:
                with_nonce = True
            elif response.status_code == 401 and not fresh:
                if "dpop" in said and "bearer" not in said and self._proofs is None:
                    self._proofs = Proofs()
                token, fresh = await self._renewed(token, challenge)
            elif response.status_code == 403 and self._steps_up(challenge, token):
                token, fresh = await self._renewed(token, challenge, further=True)
            else:
                return

    # ---- one token for all requests -----------------------------------------------------------------------------------

    async def _held(self) -> Token | None:
        token = self._usable(await self._storage.load(self._server))
        if token is not None and token.expires is not None and token.expires - _EARLY < time.time():
            return (await self._renewed(token, {}))[0]
        return token

    def _usable(self, kept: Kept | None) -> Token | None:
        """The token that is kept, unless it is bound to a key of another process."""
        token = kept.token if kept is not None else None
        own = self._proofs.thumbprint if self._proofs is not None else None
        return token if token is not None and token.bound in (None, own) else None

    def _sign(self, request: httpx2.Request, token: Token | None) -> None:
        if token is None:
            return
        request.headers["authorization"] = f"{token.kind} {token.access}"
        if token.kind == "DPoP" and self._proofs is not None:
            request.headers["dpop"] = self._proofs.header(request.method, str(request.url), token.access)

    def _steps_up(self, challenge: Mapping[str, str], token: Token | None) -> bool:
        """Whether more can be had: a server that asks again for what was asked for already, will not be content."""
        wanted = set(challenge.get("scope", "").split())
        return token is not None and challenge.get("error") == "insufficient_scope" and not wanted <= self._asked

    async def _renewed(
        self, old: Token | None, challenge: Mapping[str, str], *, further: bool = False
    ) -> tuple[Token, bool]:
        """A better token than the old one, and whether nothing better is to be had: one that was refreshed may be
        refused still. Requests that wait for the same, share it."""
        async with self._storage.turn(self._server):
            kept = await self._storage.load(self._server)
            there = self._usable(kept)
            if there is not None and (old is None or there.access != old.access):
                return there, False
            self._hint = challenge.get("resource_metadata", self._hint)
            self._challenged = challenge.get("scope", self._challenged)
            resource, issuer = await self._finding.find(self._hint, self._spoken)
            if kept is not None and kept.issuer != issuer.name:
                self._check_moved()
                kept = old = None
                self._asked.clear()
                await self._storage.save(self._server, None)
            if kept is not None and old is not None and old.refresh is not None and not further:
                refreshed = await self._refreshed(kept, issuer, resource, old)
                if refreshed is not None:
                    return refreshed, False
            return await self._granted(kept, issuer, resource, old), True

    async def _refreshed(self, kept: Kept, issuer: Issuer, resource: Resource | None, old: Token) -> Token | None:
        form = {"grant_type": "refresh_token", "refresh_token": old.refresh or ""}
        if resource is not None:
            form["resource"] = resource.name
        try:
            token = await self._endpoint(issuer, self._grant.registered or kept.client).token(form, old.scopes)
        except Unreachable:
            raise
        except NotAuthorized:
            token = None
        # One that was refused is not tried twice: reuse would end all tokens of its family.
        await self._storage.save(self._server, replace(kept, token=token))
        return token

    async def _granted(self, kept: Kept | None, issuer: Issuer, resource: Resource | None, old: Token | None) -> Token:
        known = self._grant.registered
        client = await self._grant.client(self._asking, issuer, kept.client if kept else None)
        if client.issuer is not None and client.issuer != issuer.name:
            raise NotAuthorized(f"the client is known to {client.issuer}, and {issuer.name} is another issuer")
        held = {*self._asked, *(old.scopes if old else ())}
        scopes = scopes_to_ask(
            self._challenged, resource.scopes if resource else (), sorted(held), issuer.scopes, self._grant.offline
        )
        wanted = Wanted(issuer, resource.name if resource else None, scopes)
        # What the program knows by itself is not kept with what it was given.
        keep = Kept(issuer.name, client if known is None else Registered(known.id))
        # The client is kept before its first token: whoever breaks off here need not register again.
        await self._storage.save(self._server, keep)
        try:
            form = await self._grant.grant(self._asking, wanted, client)
            token = await self._endpoint(issuer, client).token(form, scopes)
        except Unreachable:
            raise
        except NotAuthorized:
            # A server that forgot a client that registered itself is told of it anew.
            await self._storage.save(self._server, keep if known else None)
            raise
        self._asked |= set(scopes)
        await self._storage.save(self._server, replace(keep, token=token))
        return token

    def _endpoint(self, issuer: Issuer, client: Registered) -> TokenEndpoint:
        return TokenEndpoint(self._asking, issuer, client, self._proofs)

    def _check_moved(self) -> None:
        """A client that was known beforehand, at an issuer nobody named, stays with the first that was met."""
        known = self._grant.registered
        if known is not None and known.issuer is None:
            raise NotAuthorized("the server has another issuer now, to which this client is not known")
