"""Arguments that a parameter wants strictly are not converted, whatever the app does with the others."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field

from mcp_generated import App, connect


@pytest.mark.parametrize(
    ("arguments", "is_error"),
    [
        ({"exact": 1, "other": "2"}, False),
        ({"exact": "1", "other": 2}, True),
        ({"exact": 1, "other": 2, "flag": "yes"}, True),
        ({"exact": 1, "other": 2, "flag": True}, False),
    ],
)
async def test_a_strict_parameter_of_a_converting_app_takes_its_own_type_only(
    arguments: dict[str, Any], is_error: bool
) -> None:
    app = App("shop", coerce=True)

    @app.tool
    def take(
        exact: Annotated[int, Field(strict=True)], other: int, flag: Annotated[bool, Field(strict=True)] = False
    ) -> str:
        return f"{exact} {other} {flag}"

    async with connect(app) as client:
        result = await client.call_tool("take", arguments, raise_on_error=False)
    assert bool(result.is_error) == is_error
