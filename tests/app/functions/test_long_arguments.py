"""Long lists of arguments: the error of a wrong item, and items that are right as JSON only."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from support.clients import connect

from mcp_generated import App

LONG = 5000


class Person(BaseModel):
    name: str


def app() -> App:
    served = App("long")

    @served.tool()
    def choices(values: list[int | Person]) -> int:
        return len(values)

    @served.tool()
    def dates(values: list[date]) -> str:
        return max(values).isoformat()

    @served.tool()
    def many(values: Annotated[list[date], Field(min_length=LONG)]) -> int:
        return len(values)

    return served


async def called(tool: str, values: list[Any]) -> str:
    async with connect(app()) as client:
        result = await client.call_tool(tool, {"values": values})
        return str(result.content[0].text)


@pytest.mark.parametrize("place", [0, 1, 700, LONG - 1])
async def test_the_error_of_a_wrong_item_is_that_of_a_short_list(place: int) -> None:
    values: list[Any] = [{"name": "a"}, 3] * (LONG // 2)
    values[place] = {"a": 1}
    assert await called("choices", values) == await called("choices", values[: place + 1])
    assert f"values.{place}." in await called("choices", values)


async def test_items_that_are_right_as_json_are_right_in_a_long_list() -> None:
    assert await called("dates", ["2026-01-01"] * LONG + ["2026-02-02"]) == "2026-02-02"
    assert f"values.{LONG}" in await called("dates", ["2026-01-01"] * LONG + ["soon"] + ["2026-01-01"] * LONG)


async def test_a_rule_of_the_length_is_checked_with_the_whole_list() -> None:
    assert await called("many", ["2026-01-01"] * LONG) == str(LONG)
    assert f"at least {LONG} items" in await called("many", ["2026-01-01"] * (LONG - 1))
