"""Parameters, bodies and path items that refer to each other in a circle, or to nothing: one error that names it."""

from __future__ import annotations

from typing import Any

import pytest
from support.servers.apis import app_of, document

from mcp_generated import LocalError

CIRCLES: dict[str, dict[str, Any]] = {
    "itself": {"a": {"$ref": "#/components/parameters/a"}},
    "each other": {"a": {"$ref": "#/components/parameters/b"}, "b": {"$ref": "#/components/parameters/a"}},
}


@pytest.mark.parametrize("circle", CIRCLES)
@pytest.mark.parametrize("place", ["parameters", "requestBody"])
def test_a_circle_of_references_is_refused(circle: str, place: str) -> None:
    reference = {"$ref": "#/components/parameters/a"}
    operation = {"operationId": "run", place: [reference] if place == "parameters" else reference}
    whole = document({"POST /notes": operation})
    whole["components"] = {**whole.get("components", {}), "parameters": CIRCLES[circle]}
    with pytest.raises(LocalError, match=r"the reference '#/components/parameters/[ab]' refers to itself"):
        app_of(whole)
