"""The metadata of converted params: all keys arrive, and what may be large is not copied."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_generated import v2025_11_25, v2026_07_28
from mcp_generated.v2025_11_25 import types as t
from mcp_products.versions.messages import MessageConverter
from mcp_runtime.protocol.revision import Request

LARGE: dict[str, Any] = {"lists": [[[]]] * 10}


def converted(meta: Any) -> Any:
    """Return the params of a call from a client of 2025-11-25, as a handler of 2026-07-28 gets them."""
    converter = MessageConverter(v2026_07_28.Server.revision, v2025_11_25.Server.revision, "client_to_server")
    row = converter.rows["client_to_server", "tools/call"]
    assert isinstance(row, Request)
    fields = {"name": "x", "arguments": {"a": 1}, **({} if meta is None else {"_meta": meta})}
    return converter.handler_params(row, row, t.CallToolRequestParams.model_validate(fields), {})


@pytest.mark.parametrize(
    "meta",
    [
        None,
        {},
        {"progressToken": 1},
        {"com.example/x": LARGE},
        {"progressToken": "p", "com.example/x": LARGE, "y": [1]},
    ],
)
def test_all_keys_of_the_metadata_arrive(meta: Any) -> None:
    params = converted(meta)
    plain = params.model_dump()
    assert (plain["name"], plain["arguments"]) == ("x", {"a": 1})
    assert {key: value for key, value in plain["_meta"].items() if key in (meta or {})} == (meta or {})


def test_a_large_value_of_the_metadata_is_not_copied() -> None:
    assert converted({"com.example/x": LARGE}).meta.__pydantic_extra__["com.example/x"]["lists"] is LARGE["lists"]
