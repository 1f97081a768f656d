"""The routes of a card and of the catalog that names it, beside the MCP endpoint and without authentication."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from mcp_runtime.bindings.server import BaseServer, services_of_versions
from mcp_runtime.errors import NotInstalledError
from mcp_runtime.http.origins import OriginPolicy
from mcp_runtime.session.interfaces import RevisionChoice

from .card import CARD_SUFFIX, CARD_TYPE, CATALOG_PATH, CATALOG_TYPE, ServerCard, catalog_of, document_of

try:
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route
except ModuleNotFoundError:
    raise NotInstalledError("card= needs Starlette: pip install 'mcp-generated[http]'") from None

_METHODS: Final = ["GET", "OPTIONS"]  # Starlette adds HEAD.
_HEADERS: Final = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET",
    "access-control-allow-headers": "Content-Type, If-None-Match",
    "access-control-expose-headers": "ETag",
    "cache-control": "public, max-age=3600",
    "vary": "Host",
    "x-content-type-options": "nosniff",
}


class Served(Protocol):
    """What an app is here: an object with a server."""

    @property
    def server(self) -> BaseServer: ...


def card_routes(
    app: Served,
    card: ServerCard | bool,
    path: str | None,
    revisions: RevisionChoice = "all",
    hosts: Iterable[str] | None = None,
) -> list[Route]:
    """Return the routes of the card of an app, and of its catalog.

    Args:
        app: The app.
        card: What the card says besides what the app does; True for nothing.
        path: The path of the endpoint; None for that at which the application is mounted.
        revisions: The protocol versions that are served.
        hosts: The values of the Host header that the endpoint accepts.

    Raises LocalError at once for a card that cannot be made, and without Starlette.
    """
    extra = card if isinstance(card, ServerCard) else ServerCard()
    own = "" if path in (None, "/") else str(path)
    policy = OriginPolicy.create(hosts, ["*"])
    services = [candidate.get().revision for candidate in services_of_versions(app.server, revisions)]
    served = [revision.id for revision in services if revision.http.streamable]

    def document(url: str) -> dict[str, Any]:
        return document_of(app.server.info, extra, extra.url or url, served)

    def show_card(base: str) -> dict[str, Any]:
        return document(f"{base}{own or ('/' if path == '/' else '')}")

    def show_catalog(base: str) -> dict[str, Any]:
        return catalog_of(show_card(base)["name"], f"{base}{own}{CARD_SUFFIX}")

    document("http://localhost")  # What cannot be shown is said before somebody asks for it.
    return [
        Route(f"{own}{CARD_SUFFIX}", _endpoint(show_card, CARD_TYPE, policy), methods=_METHODS),
        Route(CATALOG_PATH, _endpoint(show_catalog, CATALOG_TYPE, policy), methods=_METHODS),
    ]


def _endpoint(make: Callable[[str], dict[str, Any]], media_type: str, policy: OriginPolicy) -> Any:
    async def serve(request: Request) -> Response:
        headers = {name: request.headers[name] for name in ("host",) if name in request.headers}
        if (refused := policy.check(headers)) is not None:
            return PlainTextResponse(f"{refused.reason}\n", refused.status)
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=_HEADERS)
        root = request.scope.get("root_path", "")
        body = json.dumps(make(f"{request.url.scheme}://{request.url.netloc}{root}"), separators=(",", ":")).encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        sent = {**_HEADERS, "etag": tag}
        if tag in (item.strip() for item in request.headers.get("if-none-match", "").split(",")):
            return Response(status_code=304, headers=sent)
        return Response(body, headers=sent, media_type=media_type)

    return serve
