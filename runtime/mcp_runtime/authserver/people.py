"""A browser's requests go in: what a client wants, what the person says to it, who comes back from a third party; pages
and redirects come out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import urlencode

from ..auth.metadata import base_of
from ..errors import NotAuthorized, Unreachable
from ..exchange import log
from ..faces.sealing import KeyRing, Unsealable
from . import pages
from .clients import Clients
from .login import Login
from .records import Client, Error, Origin, Refused, new_secret
from .requests import Wish, fields, redirect_of, wish_of
from .tokens import Tokens
from .upstream import Upstream
from .web import Incoming, Reply

_GIVEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_CONSENT: Final = b"consent "
_RETURN: Final = b"return "


class People:
    """The endpoints that people see. Consent is asked for every time and kept nowhere: there is none to steal, and a
    client that is new to the person always shows itself to them, also where a third party would not ask again."""

    def __init__(
        self,
        issuer: str,
        scopes: Sequence[str],
        resources: Sequence[str],
        clients: Clients,
        tokens: Tokens,
        tickets: KeyRing,
        login: Login | Upstream,
    ) -> None:
        self._issuer = issuer
        self._scopes = scopes
        self._resources = resources
        self._clients = clients
        self._tokens = tokens
        self._tickets = tickets
        self._login = login
        # With this prefix, browsers take the cookie from this very host alone.
        self._cookie = "__Host-mcp-consent" if issuer.startswith("https:") else "mcp-consent"

    async def authorize(self, request: Incoming) -> Reply:
        """Ask the person (RFC 6749 4.1.1). Raises Refused for what may go nowhere but to them."""
        pairs = fields(request.query)
        ids = [value for name, value in pairs if name == "client_id"]
        client = await self._clients.find(ids[0]) if len(ids) == 1 else None
        redirect = redirect_of(pairs, client)
        assert client is not None, "one that is not known has no redirect"
        try:
            wish = wish_of(pairs, client, redirect, self._scopes, self._resources)
        except Refused as fault:
            states = [value for name, value in pairs if name == "state"]
            back = self._back(redirect, states[0] if len(states) == 1 else None, error=fault)
            # Nobody goes by a mere link to where a stranger said that this server should send them (RFC 9700 4.11.2).
            return Reply.elsewhere(back) if client.origin is Origin.GIVEN else pages.refusal(fault.why, 400, back)
        user, provider = "", None
        if isinstance(self._login, Upstream):
            provider = self._login.party.name
        else:
            found = await self._login.who(request)
            if found is None:
                return Reply.elsewhere(self._login.page(f"{request.path}?{request.query}"))
            user = found
        browser = self._browser(request) or new_secret()
        said = json.dumps({"wish": asdict(wish), "user": user}).encode()
        ticket = self._tickets.seal(said, _CONSENT + browser.encode())
        page = pages.consent(client, wish, user, ticket, f"{self._issuer}/consent", provider)
        return Reply(page.status, page.body, (*page.headers, ("set-cookie", self._set_cookie(browser))))

    async def consent(self, request: Incoming) -> Reply:
        """What the person decided. Raises Refused for what is no decision of theirs."""
        form = request.form()
        own = base_of(self._issuer)
        there = request.headers.get("origin", own), request.headers.get("sec-fetch-site", "same-origin")
        if there != (own, "same-origin"):
            raise Refused(Error.ACCESS_DENIED, "this did not come from the page of this server", 403)
        said = self._opened(form.get("ticket", ""), _CONSENT, request)
        wish, client = await self._wish(said)
        user = said["user"]
        if not isinstance(self._login, Upstream) and await self._login.who(request) != user:
            raise Refused(Error.ACCESS_DENIED, "somebody else has signed in since this page was shown", 403)
        if form.get("decision") != "allow":
            denied = Refused(Error.ACCESS_DENIED, "the person did not allow it")
            return pages.onward(self._back(wish.redirect, wish.state, error=denied), client.name or "the program")
        if not isinstance(self._login, Upstream):
            back = self._back(wish.redirect, wish.state, await self._tokens.code(wish, user))
            return pages.onward(back, client.name or "the program")
        bound = _RETURN + (self._browser(request) or "").encode()
        try:
            url = await self._login.begin(lambda text: self._tickets.seal(text, bound), asdict(wish))
        except NotAuthorized as fault:
            return pages.onward(self._failed(wish, client, fault), client.name or "the program")
        return pages.onward(url, self._login.party.name)

    async def callback(self, request: Incoming) -> Reply:
        """Who came back from the third party, to the browser in which they agreed. Raises Refused."""
        if not isinstance(self._login, Upstream):
            raise Refused(Error.INVALID_REQUEST, "there is no third party here", 404)
        state = request.parameters().get("state", "")
        said = self._opened(state, _RETURN, request)
        wish, client = await self._wish(said)
        try:
            user, token = await self._login.finish(request.query, state, said["verifier"])
        except NotAuthorized as fault:
            return Reply.elsewhere(self._failed(wish, client, fault))
        code = await self._tokens.code(wish, user, self._login.seal(token, user))
        return Reply.elsewhere(self._back(wish.redirect, wish.state, code))

    # ---- what lies between two requests -------------------------------------------------------------------------------

    def _opened(self, text: str, purpose: bytes, request: Incoming) -> Mapping[str, Any]:
        browser = self._browser(request)
        try:
            if browser is None:
                raise Unsealable("the browser has no cookie")
            said: Mapping[str, Any] = json.loads(self._tickets.open(text, purpose + browser.encode()))
        except Unsealable:
            raise Refused(Error.ACCESS_DENIED, "the page is too old, or of another browser; start again", 403) from None
        return said

    async def _wish(self, said: Mapping[str, Any]) -> tuple[Wish, Client]:
        """What was wanted, of a client that is still known."""
        wanted: dict[str, Any] = {**said["wish"]}
        wish = Wish(scopes=tuple(wanted.pop("scopes")), **wanted)
        client = await self._clients.find(wish.client)
        redirect_of([("redirect_uri", wish.redirect)], client)
        assert client is not None, "one that is not known has no redirect"
        return wish, client

    def _browser(self, request: Incoming) -> str | None:
        """What tells this browser from others, if it is something that was given to it here."""
        found = request.cookie(self._cookie)
        return found if found is not None and _GIVEN.fullmatch(found) else None

    def _set_cookie(self, browser: str) -> str:
        secure = "; Secure" if self._cookie.startswith("__Host-") else ""
        return f"{self._cookie}={browser}; Path=/; HttpOnly; SameSite=Lax{secure}"

    def _failed(self, wish: Wish, client: Client, fault: NotAuthorized) -> str:
        """The third party said no, or nothing; why, is in the log alone."""
        log.warning("a person could not sign in with the third party, for client %s: %s", client.id, fault)
        failed = Refused(Error.ACCESS_DENIED, "the person did not sign in with the third party")
        if isinstance(fault, Unreachable):
            failed = Refused(Error.TEMPORARILY_UNAVAILABLE, "the third party gives no answer")
        return self._back(wish.redirect, wish.state, error=failed)

    def _back(self, redirect: str, state: str | None, code: str | None = None, error: Refused | None = None) -> str:
        """The redirect URI with the answer, which always says whose it is (RFC 9207)."""
        said = {"code": code} if code else {}
        if error is not None:
            said = {"error": error.error.value, "error_description": error.why}
        if state is not None:
            said["state"] = state
        return f"{redirect}{'&' if '?' in redirect else '?'}{urlencode({**said, 'iss': self._issuer})}"
