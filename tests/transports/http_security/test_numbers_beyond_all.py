"""Numbers beyond those of a float, which JSON text can have: no function of an app gets infinity or NaN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import AllowInfNan, BaseModel
from support.endpoints import Rev
from support.http.asgi_client import Web

from mcp_generated import App

META = "io.modelcontextprotocol/"
TEXTS = ["1e400", "-1e400", "1E+999", "1" * 400 + ".5", '"inf"', '"-Infinity"', '"nan"']


class Model(BaseModel):
    number: float


@dataclass
class Data:
    number: float


class Typed(TypedDict):
    number: float


app = App("numbers")
got: list[Any] = []


@app.tool
def plain(value: float) -> None:
    got.append(value)


@app.tool
def either(value: int | float | None) -> None:
    got.append(value)


@app.tool
def several(value: list[float]) -> None:
    got.append(value)


@app.tool
def named(value: dict[str, tuple[float, ...]]) -> None:
    got.append(value)


@app.tool
def model(value: Model) -> None:
    got.append(value)


@app.tool
def data(value: list[Data]) -> None:
    got.append(value)


@app.tool
def typed(value: Typed) -> None:
    got.append(value)


@app.tool
def declared(value: Annotated[float, AllowInfNan(True)]) -> None:
    got.append(value)


VALUES = {
    "plain": "HERE",
    "either": "HERE",
    "several": "[1, HERE]",
    "named": '{"x": [HERE]}',
    "model": '{"number": HERE}',
    "data": '[{"number": HERE}]',
    "typed": '{"number": HERE}',
}


async def called(tool: str, value: str) -> Any:
    got.clear()
    meta = f'{{"{META}protocolVersion": "2026-07-28", "{META}clientCapabilities": {{}}}}'
    params = f'{{"_meta": {meta}, "name": "{tool}", "arguments": {{"value": {value}}}}}'
    body = f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {params}}}'
    named = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": tool}
    web = Web(app.asgi(), Rev("2026-07-28"))
    return (await web.answered(body=body.encode(), headers=dict[str, str | None](named))).json["result"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("tool", list(VALUES))
async def test_no_tool_gets_a_number_beyond_all(tool: str, text: str) -> None:
    result = await called(tool, VALUES[tool].replace("HERE", text))
    assert result["isError"] is True and got == []
    assert "invalid arguments" in result["content"][0]["text"]


@pytest.mark.parametrize("text", ["1e308", "-1e-400", "1.5"])
@pytest.mark.parametrize("tool", list(VALUES))
async def test_the_largest_and_the_smallest_are_numbers(tool: str, text: str) -> None:
    assert not (await called(tool, VALUES[tool].replace("HERE", text))).get("isError") and len(got) == 1


async def test_a_type_that_declares_infinity_gets_it() -> None:
    await called("declared", "1e400")
    assert got == [float("inf")]
