"""HTML pages for users. They escape all texts of clients, run no scripts, and cannot be framed."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from typing import Final
from urllib.parse import urlsplit

from ..url_policy import is_loopback
from .http import HTTPResponse
from .models import ClientOrigin, OAuthClient
from .requests import PendingAuthorization

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
