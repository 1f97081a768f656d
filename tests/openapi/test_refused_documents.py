"""Documents and clients that no app can be made of are refused, with the remedy."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from support.servers.apis import BASE, document

from mcp_generated import App, LocalError, MCPType, RouteMap

WRONG: list[tuple[Any, dict[str, Any], str]] = [
    ({"swagger": "2.0", "paths": {}}, {}, r"Swagger 2\.0 is not supported.*swagger2openapi"),
    ({"openapi": "2.9", "paths": {}}, {}, r"openapi='2\.9'"),
    ({"openapi": "3.0.0"}, {"client": None}, "no absolute server URL"),
    (5, {}, "the document is a int; pass a dict, a path or a URL"),
    ("/does/not/exist.json", {}, "cannot be read"),
    (document({}), {"client": httpx2.Client(base_url=BASE)}, r"pass httpx2\.AsyncClient"),
    (document({}), {"client": httpx2.AsyncClient()}, "no base URL"),
    (document({"GET //evil.test/x": {}}), {}, 'must begin with one "/"'),
    (document({"GET /a": {"parameters": [{"$ref": "other.json#/x"}]}}), {}, "leaves the document"),
    (document({"GET /a": {"parameters": [{"$ref": "#/nothing"}]}}), {}, "has nothing at '#/nothing'"),
    (document({"POST /a": {}}), {"route_maps": [RouteMap(mcp_type=MCPType.RESOURCE)]}, "resources are read by GET"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "settings", "message"), WRONG)
def test_what_cannot_become_an_app_is_refused_with_the_remedy(spec: Any, settings: Any, message: str) -> None:
    settings = {"client": httpx2.AsyncClient(base_url=BASE), **settings}
    with pytest.raises(LocalError, match=message) as caught:
        App.from_openapi(spec, **settings)
    assert str(caught.value).count("\n") < 2


def test_an_unknown_keyword_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="route_mapz"):
        App.from_openapi(document({}), httpx2.AsyncClient(base_url=BASE), route_mapz=[])
