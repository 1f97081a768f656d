"""The route that Prometheus scrapes."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .families import content_type, text_of
from .process import PROCESS


def metrics_route(path: str) -> Any:
    """Return a Starlette route with what all processes of the endpoint have measured. It has no authentication.

    Raises LocalError where nothing can be measured.
    """
    PROCESS.begin()
    return Route(path, _metrics, methods=["GET"])


def _metrics(request: Request) -> Response:  # Starlette runs it in a thread.
    openmetrics, content = content_type(request.headers.get("accept", ""))
    return Response(text_of(PROCESS.all(), openmetrics), media_type=content)
