"""The routes of the page of a gateway: HTML that loads no other file, and the JSON that it shows.

The page has no authentication, and is for this machine only. Text of servers is untrusted: the script inserts it as
text, and the content security policy allows that one script, that one style, and connections to the gateway.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ...http.origins import LOOPBACK

_FOLDER: Final = Path(__file__).parent
_CLIENTS: Final = ("127.0.0.1", "::1")
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
_HEADERS: Final = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


class GatewayPage:
    """The page of one gateway."""

    def __init__(self, state: Callable[[], dict[str, Any]]) -> None:
        """Create a page; `state` returns what it shows, as JSON."""
        self._state = state
        script, style = ((_FOLDER / file).read_text(encoding="utf-8") for file in ("page.js", "page.css"))
        page = (_FOLDER / "page.html").read_text(encoding="utf-8")
        self._page = page.replace("/*style*/", style).replace("/*script*/", script)
        self._policy = (
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; connect-src 'self'; "
            "img-src data:; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )

    async def page(self, request: Any) -> Any:
        """Return the page, to a browser of this machine."""
        from starlette.responses import HTMLResponse

        return _refusal(request) or HTMLResponse(
            self._page, headers={**_HEADERS, "content-security-policy": self._policy}
        )

    async def data(self, request: Any) -> Any:
        """Return the JSON of the page, to a browser of this machine."""
        from starlette.responses import JSONResponse

        return _refusal(request) or JSONResponse(self._state(), headers=_HEADERS)


def _refusal(request: Any) -> Any:
    """Return the response to a request that does not come from this machine, or names another host or origin."""
    from starlette.responses import PlainTextResponse

    headers = request.headers
    host = headers.get("host", "").lower()
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    client = request.client.host if request.client is not None else ""
    origin = headers.get("origin")
    is_own = origin is None or origin.lower() == f"{request.url.scheme}://{host}"
    if client in _CLIENTS and name in LOOPBACK and is_own and not any(key in headers for key in _FORWARDED):
        return None
    return PlainTextResponse("the page is for browsers of this machine only", 403, headers=_HEADERS)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
