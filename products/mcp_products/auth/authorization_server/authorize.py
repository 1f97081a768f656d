"""The endpoints that browsers use: authorization endpoint, consent page, and callback of the upstream provider."""

from __future__ import annotations

import json
import logging
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from html import escape
from typing import Any, Final, Protocol
from urllib.parse import urlencode, urlsplit

from mcp_products.common.caches import BoundedCache
from mcp_products.common.keys import KeyRing
from mcp_runtime.errors import AuthorizationError, AuthorizationServerUnavailableError
from mcp_runtime.http.urls import base_url
from mcp_runtime.server.state_tokens import InvalidTokenError

from ..http import is_loopback
from .clients import ClientRegistry
from .http import HTTPRequest, HTTPResponse
from .models import ClientOrigin, OAuthClient, OAuthError, OAuthErrorCode, digest, new_secret
from .requests import PendingAuthorization, parse_authorization_request, parse_form, resolve_redirect_uri
from .tokens import TokenService
from .upstream import UpstreamClient

# HTML pages for users. They escape all texts of clients, run no scripts, and cannot be framed.

_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:3rem auto;"
    "padding:0 1rem}"
    "h1{font-size:1.4rem}dt{font-weight:600;margin-top:.6rem}dd{margin:0;overflow-wrap:anywhere}"
    ".warning{border-left:4px solid #b45309;padding:.2rem .8rem;margin:1rem 0}"
    "button,.button{font:inherit;padding:.5rem 1.2rem;margin:1rem .8rem 0 0;cursor:pointer}"
)
_STYLE_HASH: Final = b64encode(sha256(_STYLE.encode()).digest()).decode()
_UNVERIFIED_CLIENT: Final[Mapping[ClientOrigin, str]] = {
    ClientOrigin.REGISTERED: "This program chose its name itself, and nobody has checked it.",
    ClientOrigin.DOCUMENT: "The web site in its id describes this program; nobody else has checked its name.",
}
_log: Final = logging.getLogger("mcp_runtime.auth.authorization_server.authorize")

_BROWSER_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_CONSENT: Final = b"consent "
_CALLBACK: Final = b"return "
_DEFAULT_NAME: Final = "the program"
_MAX_DECIDED: Final = 10_000  # Tickets of decisions that are remembered; the grants of the others have their ids.


def consent(
    client: OAuthClient, request: PendingAuthorization, user: str, ticket: str, action: str, provider: str | None
) -> HTTPResponse:
    """Return the page on which a user allows or denies the request of a client.

    `ticket` is the encrypted request, `action` the URL of the form, and `provider` the name of the upstream provider
    where the user signs in afterwards, if there is one.
    """
    host = urlsplit(request.redirect_uri).hostname or ""
    destination = f"a program on this computer ({host})" if is_loopback(host) else host
    facts = {
        "Program": client.name or "(it has no name)",
        "Its id": client.client_id,
        "The result is sent to": destination,
        "It gets access to": request.resource,
        "It may": ", ".join(request.scopes) or "use it as you",
    }
    if user:
        facts["You are"] = user
    if provider:
        facts["You sign in with"] = provider
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
    warning = _UNVERIFIED_CLIENT.get(client.origin, "")
    body = (
        f"<h1>Allow {escape(client.name or client.client_id)} to act for you?</h1>"
        + (f'<p class="warning">{warning} Continue only if you started this yourself.</p>' if warning else "")
        + f'<dl>{items}</dl><form method="post" action="{escape(action)}">'
        f'<input type="hidden" name="ticket" value="{escape(ticket)}">'
        '<button name="decision" value="deny">Do not allow</button>'
        '<button name="decision" value="allow" id="allow">Allow</button></form>'
    )
    return page("Allow access?", body, forms="'self'")


def error_page(reason: str, status: int = 400, return_to: str | None = None) -> HTTPResponse:
    """Return a page with an error for the user. `return_to` is the URL of a link back to the program."""
    link = (
        f'<p><a class="button" rel="noreferrer" href="{escape(return_to)}">Back to the program</a></p>'
        if return_to
        else ""
    )
    return page("Not allowed", f"<h1>This cannot be allowed</h1><p>{escape(reason)}.</p>{link}", status)


def redirect_page(url: str, name: str) -> HTTPResponse:
    """Return a page that loads a URL by itself, for use after a form. A redirect would not do: browsers apply the
    `form-action` policy of the form's page to all redirects after it, also to those of other sites."""
    target = escape(url)
    body = f'<h1>Continue to {escape(name)}</h1><p><a id="continue" rel="noreferrer" href="{target}">Continue</a></p>'
    return page("Continue", body, head=f'<meta http-equiv="refresh" content="0; url={target}">')


def page(title: str, body: str, status: int = 200, forms: str = "'none'", head: str = "") -> HTTPResponse:
    """Return a page with a strict Content-Security-Policy. `forms` is its `form-action`, `head` is added to the
    head."""
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; frame-ancestors 'none'; "
        f"form-action {forms}"
    )
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>{head}<style>{_STYLE}</style></head><body><main>{body}</main></body></html>"
    )
    headers = (
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", policy),
        ("x-frame-options", "DENY"),
        # With `no-referrer` browsers would also send no usable Origin with the form, which is checked.
        ("referrer-policy", "same-origin"),
    )
    return HTTPResponse(status, text.encode(), headers)


# The login hook: by it an authorization server uses the sign-in of an existing site.


class Login(Protocol):
    """The sign-in of a site."""

    async def current_user(self, request: HTTPRequest) -> str | None:
        """Return a stable id of the user who is signed in at the browser; None if nobody is."""
        ...

    def login_url(self, return_to: str) -> str:
        """Return the URL of the sign-in page. After signing in it redirects the browser to `return_to`, a path with
        query at the authorization server."""
        ...


class AuthorizeEndpoints:
    """The endpoints that browsers use.

    The consent page is shown every time, and consent is not stored. So a client cannot get a token without the user's
    knowledge, even if the upstream provider would not ask again.
    """

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
        """Create the endpoints.

        Args:
            issuer: Issuer identifier of the server.
            scopes: Scopes of the server.
            resources: Resources that tokens are for.
            clients: Clients of the server.
            tokens: Issues codes.
            tickets: Encrypts the state between two requests of a browser.
            login: The sign-in of the site, or the upstream provider.
        """
        self._issuer = issuer
        self._scopes = scopes
        self._resources = resources
        self._clients = clients
        self._tokens = tokens
        self._tickets = tickets
        self._login = login
        self._decided: BoundedCache[str, bool] = BoundedCache(_MAX_DECIDED, ttl=tickets.lifetime)
        # The prefix makes browsers reject the cookie from other hosts and over http.
        self._cookie = "__Host-mcp-consent" if issuer.startswith("https:") else "mcp-consent"

    async def authorize(self, request: HTTPRequest) -> HTTPResponse:
        """Return the consent page for an authorization request (https://www.rfc-editor.org/rfc/rfc6749#section-4.1.1).

        Raises OAuthError for an error that must not be sent to the redirect URI.
        """
        fields = parse_form(request.query)
        ids = [value for name, value in fields if name == "client_id"]
        client = await self._clients.find(ids[0]) if len(ids) == 1 else None
        redirect_uri = resolve_redirect_uri(fields, client)
        assert client is not None, "an unknown client has no redirect URI"
        try:
            authorization = parse_authorization_request(fields, client, redirect_uri, self._scopes, self._resources)
        except OAuthError as error:
            states = [value for name, value in fields if name == "state"]
            url = self._redirect_url(redirect_uri, states[0] if len(states) == 1 else None, error=error)
            # Only configured clients get an automatic redirect: an attacker could register any redirect URI, and use
            # this server as an open redirector (RFC 9700, section 4.11.2).
            return (
                HTTPResponse.redirect(url)
                if client.origin is ClientOrigin.STATIC
                else error_page(error.reason, 400, url)
            )
        user, provider = "", None
        if isinstance(self._login, UpstreamClient):
            provider = self._login.provider.name
        else:
            current_user = await self._login.current_user(request)
            if current_user is None:
                return HTTPResponse.redirect(self._login.login_url(f"{request.path}?{request.query}"))
            user = current_user
        browser = self._browser_id(request) or new_secret()
        state = json.dumps({"request": asdict(authorization), "user": user}).encode()
        ticket = self._tickets.encrypt(state, _CONSENT + browser.encode())
        page = consent(client, authorization, user, ticket, f"{self._issuer}/consent", provider)
        return HTTPResponse(page.status, page.body, (*page.headers, ("set-cookie", self._set_cookie(browser))))

    async def consent(self, request: HTTPRequest) -> HTTPResponse:
        """Process the user's decision. Raises OAuthError unless it comes from the consent page shown to this
        browser."""
        form = request.form()
        own_origin = base_url(self._issuer)
        origin = request.headers.get("origin", own_origin)
        if (origin, request.headers.get("sec-fetch-site", "same-origin")) != (own_origin, "same-origin"):
            raise OAuthError(OAuthErrorCode.ACCESS_DENIED, "the form was not sent from a page of this server", 403)
        ticket = self._decrypt_ticket(form.get("ticket", ""), _CONSENT, request)
        authorization, client = await self._authorization_request(ticket)
        user = ticket["user"]
        if not isinstance(self._login, UpstreamClient) and await self._login.current_user(request) != user:
            raise OAuthError(
                OAuthErrorCode.ACCESS_DENIED, "another user has signed in since this page was shown; start again", 403
            )
        decision = self._decide_once(form["ticket"])
        name = client.name or _DEFAULT_NAME
        if form.get("decision") != "allow":
            denied = OAuthError(OAuthErrorCode.ACCESS_DENIED, "the user denied access")
            url = self._redirect_url(authorization.redirect_uri, authorization.state, error=denied)
            return redirect_page(url, name)
        if not isinstance(self._login, UpstreamClient):
            code = await self._tokens.code(decision, authorization, user)
            return redirect_page(self._redirect_url(authorization.redirect_uri, authorization.state, code), name)
        associated_data = _CALLBACK + (self._browser_id(request) or "").encode()
        try:
            url = await self._login.start(
                lambda state: self._tickets.encrypt(state, associated_data), asdict(authorization), decision
            )
        except AuthorizationError as error:
            return redirect_page(self._upstream_error_url(authorization, client, error), name)
        return redirect_page(url, self._login.provider.name)

    async def callback(self, request: HTTPRequest) -> HTTPResponse:
        """Redirect a browser that comes back from the upstream provider to the client, with a code.

        Raises OAuthError unless the user consented in this browser.
        """
        if not isinstance(self._login, UpstreamClient):
            raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "this server has no upstream provider", 404)
        state = request.parameters().get("state", "")
        ticket = self._decrypt_ticket(state, _CALLBACK, request)
        authorization, client = await self._authorization_request(ticket)
        try:
            user, token = await self._login.finish(request.query, state, ticket["code_verifier"])
        except AuthorizationError as error:
            return HTTPResponse.redirect(self._upstream_error_url(authorization, client, error))
        self._decide_once(state)
        code = await self._tokens.code(ticket["decision"], authorization, user, self._login.encrypt(token, user))
        return HTTPResponse.redirect(self._redirect_url(authorization.redirect_uri, authorization.state, code))

    # ---- state between two requests ----------------------------------------------------------------------------------

    def _decrypt_ticket(self, ticket: str, purpose: bytes, request: HTTPRequest) -> Mapping[str, Any]:
        browser = self._browser_id(request)
        try:
            if browser is None:
                raise InvalidTokenError("the browser sent no cookie")
            state: Mapping[str, Any] = json.loads(self._tickets.decrypt(ticket, purpose + browser.encode()))
        except InvalidTokenError:
            raise OAuthError(
                OAuthErrorCode.ACCESS_DENIED, "the page has expired, or was opened in another browser; start again", 403
            ) from None
        return state

    def _decide_once(self, ticket: str) -> str:
        """Return the id of the decision that a ticket is used for. Raises OAuthError for the second use."""
        decision = digest(ticket)
        if self._decided.get(decision):
            raise OAuthError(OAuthErrorCode.ACCESS_DENIED, "this page was used before; start again", 403)
        self._decided.put(decision, True)
        return decision

    async def _authorization_request(self, ticket: Mapping[str, Any]) -> tuple[PendingAuthorization, OAuthClient]:
        """Return the authorization request of a ticket, and its client. Raises OAuthError if the client is deleted."""
        fields: dict[str, Any] = {**ticket["request"]}
        authorization = PendingAuthorization(scopes=tuple(fields.pop("scopes")), **fields)
        client = await self._clients.find(authorization.client_id)
        resolve_redirect_uri([("redirect_uri", authorization.redirect_uri)], client)
        assert client is not None, "an unknown client has no redirect URI"
        return authorization, client

    def _browser_id(self, request: HTTPRequest) -> str | None:
        """Return the random id in the browser's cookie, if the cookie has the form of an id of this server."""
        value = request.cookie(self._cookie)
        return value if value is not None and _BROWSER_ID.fullmatch(value) else None

    def _set_cookie(self, browser: str) -> str:
        secure = "; Secure" if self._cookie.startswith("__Host-") else ""
        return f"{self._cookie}={browser}; Path=/; HttpOnly; SameSite=Lax{secure}"

    def _upstream_error_url(self, request: PendingAuthorization, client: OAuthClient, error: AuthorizationError) -> str:
        """Return the redirect for a failure at the upstream provider. Only the log has the reason."""
        _log.warning("signing in with the upstream provider failed for client %s: %s", client.client_id, error)
        failure = OAuthError(OAuthErrorCode.ACCESS_DENIED, "the user did not sign in with the third party")
        if isinstance(error, AuthorizationServerUnavailableError):
            failure = OAuthError(OAuthErrorCode.TEMPORARILY_UNAVAILABLE, "the third party does not respond")
        return self._redirect_url(request.redirect_uri, request.state, error=failure)

    def _redirect_url(
        self, redirect_uri: str, state: str | None, code: str | None = None, error: OAuthError | None = None
    ) -> str:
        """Return the redirect URI with the authorization response, which always has `iss`
        (https://www.rfc-editor.org/rfc/rfc9207#section-2)."""
        params = {"code": code} if code else {}
        if error is not None:
            params = {"error": error.code.value, "error_description": error.reason}
        if state is not None:
            params["state"] = state
        return f"{redirect_uri}{'&' if '?' in redirect_uri else '?'}{urlencode({**params, 'iss': self._issuer})}"
