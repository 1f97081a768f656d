"""A browser's requests go in: what a client wants, what the person says to it, who comes back from a third party; pages
and redirects come out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import urlencode

from ...encryption import InvalidTokenError, KeyRing
from ...errors import AuthorizationError, AuthorizationServerUnavailableError
from ...session.pending import log
from ..metadata import base_url
from . import pages
from .clients import ClientRegistry
from .http import HTTPRequest, HTTPResponse
from .login import Login
from .models import ClientOrigin, OAuthClient, OAuthError, OAuthErrorCode, new_secret
from .requests import (
    AuthorizationRequest,
    parse_authorization_request,
    parse_form,
    resolve_redirect_uri,
)
from .tokens import TokenService
from .upstream import UpstreamClient

_APPROVED: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_CONSENT: Final = b"consent "
_RETURN: Final = b"return "


class AuthorizeEndpoints:
    """The endpoints that people see. Consent is asked for every time and kept nowhere: there is none to steal, and a
    client that is new to the person always shows itself to them, also where a third party would not ask again."""

    def __init__(
        self,
        issuer: str,
        scopes: Sequence[str],
        resources: Sequence[str],
        clients: ClientRegistry,
        tokens: TokenService,
        tickets: KeyRing,
        login: Login | UpstreamClient,
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

    async def authorize(self, request: HTTPRequest) -> HTTPResponse:
        """Ask the person (RFC 6749 4.1.1). Raises Refused for what may go nowhere but to them."""
        pairs = parse_form(request.query)
        ids = [value for name, value in pairs if name == "client_id"]
        client = await self._clients.find(ids[0]) if len(ids) == 1 else None
        redirect = resolve_redirect_uri(pairs, client)
        assert client is not None, "one that is not known has no redirect"
        try:
            wish = parse_authorization_request(pairs, client, redirect, self._scopes, self._resources)
        except OAuthError as fault:
            states = [value for name, value in pairs if name == "state"]
            back = self._redirect_back(redirect, states[0] if len(states) == 1 else None, error=fault)
            # Nobody goes by a mere link to where a stranger said that this server should send them (RFC 9700 4.11.2).
            return (
                HTTPResponse.redirect(back)
                if client.origin is ClientOrigin.STATIC
                else pages.error_page(fault.reason, 400, back)
            )
        user, provider = "", None
        if isinstance(self._login, UpstreamClient):
            provider = self._login.provider.name
        else:
            found = await self._login.current_user(request)
            if found is None:
                return HTTPResponse.redirect(self._login.login_url(f"{request.path}?{request.query}"))
            user = found
        browser = self._browser_id(request) or new_secret()
        said = json.dumps({"wish": asdict(wish), "user": user}).encode()
        ticket = self._tickets.encrypt(said, _CONSENT + browser.encode())
        page = pages.consent(client, wish, user, ticket, f"{self._issuer}/consent", provider)
        return HTTPResponse(page.status, page.body, (*page.headers, ("set-cookie", self._set_cookie(browser))))

    async def consent(self, request: HTTPRequest) -> HTTPResponse:
        """What the person decided. Raises Refused for what is no decision of theirs."""
        form = request.form()
        own = base_url(self._issuer)
        there = request.headers.get("origin", own), request.headers.get("sec-fetch-site", "same-origin")
        if there != (own, "same-origin"):
            raise OAuthError(OAuthErrorCode.ACCESS_DENIED, "this did not come from the page of this server", 403)
        said = self._decrypt_ticket(form.get("ticket", ""), _CONSENT, request)
        wish, client = await self._authorization_request(said)
        user = said["user"]
        if not isinstance(self._login, UpstreamClient) and await self._login.current_user(request) != user:
            raise OAuthError(OAuthErrorCode.ACCESS_DENIED, "somebody else has signed in since this page was shown", 403)
        if form.get("decision") != "allow":
            denied = OAuthError(OAuthErrorCode.ACCESS_DENIED, "the person did not allow it")
            return pages.redirect_page(
                self._redirect_back(wish.redirect_uri, wish.state, error=denied), client.name or "the program"
            )
        if not isinstance(self._login, UpstreamClient):
            back = self._redirect_back(wish.redirect_uri, wish.state, await self._tokens.code(wish, user))
            return pages.redirect_page(back, client.name or "the program")
        bound = _RETURN + (self._browser_id(request) or "").encode()
        try:
            url = await self._login.start(lambda text: self._tickets.encrypt(text, bound), asdict(wish))
        except AuthorizationError as fault:
            return pages.redirect_page(self._error_redirect(wish, client, fault), client.name or "the program")
        return pages.redirect_page(url, self._login.provider.name)

    async def callback(self, request: HTTPRequest) -> HTTPResponse:
        """Who came back from the third party, to the browser in which they agreed. Raises Refused."""
        if not isinstance(self._login, UpstreamClient):
            raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "there is no third party here", 404)
        state = request.parameters().get("state", "")
        said = self._decrypt_ticket(state, _RETURN, request)
        wish, client = await self._authorization_request(said)
        try:
            user, token = await self._login.finish(request.query, state, said["verifier"])
        except AuthorizationError as fault:
            return HTTPResponse.redirect(self._error_redirect(wish, client, fault))
        code = await self._tokens.code(wish, user, self._login.encrypt(token, user))
        return HTTPResponse.redirect(self._redirect_back(wish.redirect_uri, wish.state, code))

    # ---- what lies between two requests -------------------------------------------------------------------------------

    def _decrypt_ticket(self, text: str, purpose: bytes, request: HTTPRequest) -> Mapping[str, Any]:
        browser = self._browser_id(request)
        try:
            if browser is None:
                raise InvalidTokenError("the browser has no cookie")
            said: Mapping[str, Any] = json.loads(self._tickets.decrypt(text, purpose + browser.encode()))
        except InvalidTokenError:
            raise OAuthError(
                OAuthErrorCode.ACCESS_DENIED, "the page is too old, or of another browser; start again", 403
            ) from None
        return said

    async def _authorization_request(self, params: Mapping[str, Any]) -> tuple[AuthorizationRequest, OAuthClient]:
        """What was wanted, of a client that is still known."""
        wanted: dict[str, Any] = {**params["wish"]}
        wish = AuthorizationRequest(scopes=tuple(wanted.pop("scopes")), **wanted)
        client = await self._clients.find(wish.client_id)
        resolve_redirect_uri([("redirect_uri", wish.redirect_uri)], client)
        assert client is not None, "one that is not known has no redirect"
        return wish, client

    def _browser_id(self, request: HTTPRequest) -> str | None:
        """What tells this browser from others, if it is something that was given to it here."""
        found = request.cookie(self._cookie)
        return found if found is not None and _APPROVED.fullmatch(found) else None

    def _set_cookie(self, browser: str) -> str:
        secure = "; Secure" if self._cookie.startswith("__Host-") else ""
        return f"{self._cookie}={browser}; Path=/; HttpOnly; SameSite=Lax{secure}"

    def _error_redirect(self, request: AuthorizationRequest, client: OAuthClient, error: AuthorizationError) -> str:
        """The third party said no, or nothing; why, is in the log alone."""
        log.warning("a person could not sign in with the third party, for client %s: %s", client.client_id, error)
        failed = OAuthError(OAuthErrorCode.ACCESS_DENIED, "the person did not sign in with the third party")
        if isinstance(error, AuthorizationServerUnavailableError):
            failed = OAuthError(OAuthErrorCode.TEMPORARILY_UNAVAILABLE, "the third party gives no answer")
        return self._redirect_back(request.redirect_uri, request.state, error=failed)

    def _redirect_back(
        self, redirect: str, state: str | None, code: str | None = None, error: OAuthError | None = None
    ) -> str:
        """The redirect URI with the answer, which always says whose it is (RFC 9207)."""
        said = {"code": code} if code else {}
        if error is not None:
            said = {"error": error.code.value, "error_description": error.reason}
        if state is not None:
            said["state"] = state
        return f"{redirect}{'&' if '?' in redirect else '?'}{urlencode({**said, 'iss': self._issuer})}"
