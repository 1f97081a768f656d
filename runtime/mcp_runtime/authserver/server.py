"""Clients, people and a resource go in; an ASGI application comes out that is the authorization server between them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ..auth.asking import Asking
from ..auth.policy import UrlPolicy, is_loopback
from ..auth.resource.caller import User, Verifier
from ..auth.store import Token
from ..errors import LocalError
from ..exchange import log
from ..faces.sealing import KeyRing
from ..transports.http.arrivals import Arrivals
from ..transports.http.wire import Left, Receive, Scope, Send
from . import pages
from .clients import Clients, Quota
from .login import Login
from .people import People
from .programs import Programs, claims
from .records import Client, Error, Refused
from .storage import SQLite, Storage
from .tokens import Lifetimes, Tokens, Worth
from .upstream import ThirdParty, Upstream
from .web import Incoming, Reply, read

_METADATA: Final = "/.well-known/oauth-authorization-server"
_ARRIVAL: Final = 15.0  # Seconds a request may take to arrive.
_SWEEP: Final = 60.0  # Seconds between looks for what has expired.
_DECIDE: Final = 600.0  # Seconds a person has to decide, and to sign in with a third party.
_YEAR: Final = 366 * 86400.0
# Programs that run in browsers ask these from pages of other sites; no cookie has a say there.
_ANYONE: Final = (
    ("access-control-allow-origin", "*"),
    ("access-control-allow-methods", "GET, POST"),
    ("access-control-allow-headers", "content-type, authorization, mcp-protocol-version"),
    ("access-control-max-age", "3600"),
)

App = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Route:
    method: str
    handler: Callable[[Incoming], Awaitable[Reply]]
    of_programs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What strangers may take: bytes of a body, registrations an hour from one address, and clients altogether."""

    body: int = 32 * 1024
    registrations: int = 30
    clients: int = 20_000


class AuthorizationServer:
    """An authorization server (OAuth 2.1), as an ASGI application; `beside` serves another one at the same origin.

    `issuer`: its URL, https or http on this machine. `resources`: the URLs of the MCP servers that tokens are for; the
    first is that of clients that name none. `login`: who a browser belongs to; or `third_party`: people sign in there.
    `clients`: those that are known beforehand. `register` and `documents`: whether others may register themselves, and
    may have their metadata at their id. `keys`: of 32 bytes, shared by all processes; what a third party gives is sealed
    with them, and is lost with them. `policy`: which documents of clients are asked for."""

    def __init__(
        self,
        issuer: str,
        *,
        resources: Sequence[str],
        login: Login | None = None,
        third_party: ThirdParty | None = None,
        storage: Storage | None = None,
        scopes: Sequence[str] = (),
        clients: Sequence[Client] = (),
        register: bool = True,
        documents: bool = True,
        keys: Sequence[bytes] = (),
        policy: UrlPolicy = UrlPolicy(),  # noqa: B008
        limits: Limits = Limits(),  # noqa: B008
        lifetimes: Lifetimes = Lifetimes(),  # noqa: B008
        clock: Callable[[], float] = time.time,
    ) -> None:
        UrlPolicy(local=True, private=frozenset({issuer})).check(issuer)
        if issuer.endswith("/") or "?" in issuer:
            raise LocalError(f"{issuer}: an issuer has no slash at its end, and no query")
        base = urlsplit(issuer)
        if issuer != f"{base.scheme}://{base.netloc.lower()}{base.path}" or base.port in (80, 443):
            raise LocalError(f"{issuer}: an issuer is written as browsers write it, and has no usual port")
        if not resources:
            raise LocalError("an authorization server needs a resource to give tokens for")
        self.issuer = issuer
        self._local = is_loopback(urlsplit(issuer).hostname or "")
        self._storage = storage or SQLite()
        self._lifetimes = lifetimes
        self._clock = clock
        self._swept = 0.0
        self._arrivals = Arrivals(limits.body, _ARRIVAL)
        keys = keys or (KeyRing.new_key(),)
        self._upstream: Upstream | None = None
        if third_party is not None:
            ring = KeyRing(*keys, lifetime=_YEAR)
            self._upstream = Upstream(third_party, f"{issuer}/callback", self._storage, ring, clock)
        signs_in = self._upstream or login
        if signs_in is None or (login is not None and third_party is not None):
            raise LocalError("people sign in either by `login` or with a `third_party`")
        asking = Asking(policy) if documents else None
        known = Clients(self._storage, clients, scopes, asking, limits.clients, clock)
        self._tokens = Tokens(self._storage, lifetimes, scopes, resources, clock)
        tickets = KeyRing(*keys, lifetime=_DECIDE)
        people = People(issuer, scopes, resources, known, self._tokens, tickets, signs_in)
        quota = Quota(limits.registrations, clock) if register else None
        programs = Programs(issuer, scopes, known, self._tokens, quota, documents, self.worth)
        self._routes = _routes(urlsplit(issuer).path, people, programs)

    # ---- ASGI ---------------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI 3, with nothing else at this origin."""
        await self.beside(_nothing)(scope, receive, send)

    def beside(self, app: App) -> App:
        """This server and, for all paths that are not its own and for lifespans, another application."""

        async def both(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or scope["path"] not in self._routes:
                return await app(scope, receive, send)
            try:
                await self._serve(scope, receive, send)
            except Left:
                log.debug("a client left before its request was there")

        return both

    async def worth(self, token: str) -> Worth | None:
        """What an access token of this server is worth now; None for nothing. Raises Unreachable where a third party
        that has to be asked gives no answer."""
        found = await self._tokens.worth(token)
        if found is not None and found.grant.upstream is not None:
            return found if await self.of_third_party(found.grant.id) else None
        return found

    def verifier(self, resource: str) -> Verifier:
        """What knows the tokens of this server that are for a resource: for `Protection` in the same process."""
        return _Own(self, resource)

    async def of_third_party(self, grant: str) -> Token | None:
        """What the third party gave for a grant, for tools that act there; None where it is no longer good. Never give it
        to a client."""
        found = await self._storage.grant(grant)
        return None if found is None or self._upstream is None else await self._upstream.token(found)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes[scope["path"]]
        more = _ANYONE if route.of_programs else ()
        request = await read(scope, receive, self._arrivals)
        if isinstance(request, Reply):
            reply = request
        elif route.of_programs and request.method == "OPTIONS":
            reply = Reply(204)
        elif request.method != route.method:
            reply = Reply(405, headers=(("allow", route.method),))
        elif self._local and not is_loopback(_host(request)):
            reply = Reply(421)  # A name that was bent to this machine is not ours.
        else:
            await self._sweep()
            reply = await _answered(route, request)
        await Reply(reply.status, reply.body, (*reply.headers, *more)).send(send)

    async def _sweep(self) -> None:
        now = self._clock()
        if now - self._swept >= _SWEEP:
            self._swept = now
            await self._storage.sweep(now, now - self._lifetimes.unused)


@dataclass(frozen=True, slots=True)
class _Own:
    server: AuthorizationServer
    resource: str

    async def verify(self, token: str) -> User | None:
        found = await self.server.worth(token)
        if found is None or found.grant.resource != self.resource:
            return None
        said = claims(found, self.server.issuer)
        return User(found.grant.user, found.grant.client, frozenset(found.scopes), self.server.issuer, said)


def _routes(path: str, people: People, programs: Programs) -> Mapping[str, _Route]:
    return {
        f"{_METADATA}{path}": _Route("GET", programs.metadata, True),
        f"{path}/token": _Route("POST", programs.token, True),
        f"{path}/register": _Route("POST", programs.register, True),
        f"{path}/revoke": _Route("POST", programs.revoke, True),
        f"{path}/introspect": _Route("POST", programs.introspect, True),
        f"{path}/authorize": _Route("GET", people.authorize, False),
        f"{path}/consent": _Route("POST", people.consent, False),
        f"{path}/callback": _Route("GET", people.callback, False),
    }


async def _answered(route: _Route, request: Incoming) -> Reply:
    try:
        return await route.handler(request)
    except Refused as fault:
        refused = fault
    except Exception:
        log.exception("a request of authorization failed")
        refused = Refused(Error.SERVER_ERROR, "something went wrong here", 500)
    return Reply.refusal(refused) if route.of_programs else pages.refusal(refused.why, refused.status)


def _host(request: Incoming) -> str:
    return urlsplit(f"//{request.headers.get('host', '')}").hostname or ""


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """What is beside a server that is alone."""
    if scope["type"] == "http":
        return await Reply(404).send(send)
    while scope["type"] == "lifespan":
        said: str = (await receive())["type"]
        await send({"type": f"{said}.complete"})
        if said == "lifespan.shutdown":
            return
