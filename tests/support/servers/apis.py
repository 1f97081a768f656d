"""A document of an API goes in; an app of it and the requests that it sends come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2

from mcp_generated import App

BASE = "https://api.test/v1"
Requests = list[httpx2.Request]
Reply = Callable[[httpx2.Request], httpx2.Response]


def document(operations: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Operations by `METHOD /path`, as an OpenAPI document."""
    paths: dict[str, Any] = {}
    for line, operation in operations.items():
        method, path = line.split(" ")
        paths.setdefault(path, {})[method.lower()] = {"responses": {}, **operation}
    return {"openapi": "3.1.0", "info": {"title": "Notes", "version": "1"}, "paths": paths, **more}


def app_of(spec: dict[str, Any], reply: Reply | None = None, **settings: Any) -> tuple[App, Requests]:
    requests: Requests = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(200, json={"ok": True}) if reply is None else reply(request)

    client = httpx2.AsyncClient(base_url=BASE, transport=httpx2.MockTransport(answer))
    return App.from_openapi(spec, client, **settings), requests
