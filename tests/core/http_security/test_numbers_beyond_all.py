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
NUMBERS = ["1e400", "-1e400", "1E+999", "1e0400", "1" * 400 + ".5", "1" * 250 + "e99", "0." + "1" * 400 + "e700"]
WORDS = ['"inf"', '"-Infinity"', '"nan"']


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
def untyped(value: Any) -> None:
    got.append(value)


@app.tool
def objects(value: dict[str, Any]) -> None:
    got.append(value)


@app.tool(coerce=True)
def declared(value: Annotated[float, AllowInfNan(True)]) -> None:
    got.append(value)


DOORS = {
    "an argument": '"arguments": {"value": HERE}',
    "a list in an argument": '"arguments": {"value": [1, {"x": HERE}]}',
    "an unknown argument": '"arguments": {"value": 1, "more": HERE}',
    "metadata": '"arguments": {"value": 1}, "_meta": {META, "a/b": {"x": [HERE]}}',
    "a progress token": '"arguments": {"value": 1}, "_meta": {META, "progressToken": HERE}',
    "an unknown parameter": '"arguments": {"value": 1}, "more": HERE',
}
VALUES = {
    "plain": "HERE",
    "either": "HERE",
    "several": "[1, HERE]",
    "named": '{"x": [HERE]}',
    "model": '{"number": HERE}',
    "data": '[{"number": HERE}]',
    "typed": '{"number": HERE}',
}


async def answered(tool: str, params: str) -> Any:
    got.clear()
    meta = f'"{META}protocolVersion": "2026-07-28", "{META}clientCapabilities": {{}}'
    whole = params.replace("META", meta) if "META" in params else f'"_meta": {{{meta}}}, {params}'
    body = f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {{"name": "{tool}", {whole}}}}}'
    named = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": tool}
    web = Web(app.asgi(), Rev("2026-07-28"))
    return (await web.answered(body=body.encode(), headers=dict[str, str | None](named))).json


async def called(tool: str, value: str) -> Any:
    return (await answered(tool, f'"arguments": {{"value": {value}}}'))["result"]


@pytest.mark.parametrize("text", NUMBERS)
@pytest.mark.parametrize("door", list(DOORS))
@pytest.mark.parametrize("tool", ["untyped", "objects", "declared"])
async def test_a_message_with_a_number_beyond_all_is_refused(tool: str, door: str, text: str) -> None:
    error = (await answered(tool, DOORS[door].replace("HERE", text)))["error"]
    assert error["code"] == -32600 and "too large" in error["message"] and got == []


@pytest.mark.parametrize("door", list(DOORS))
async def test_text_that_looks_like_one_is_text(door: str) -> None:
    for text in ('"1e400"', '"x1E999y"', '"' + "9" * 400 + '"', "0e999", "1e-999", "9" * 400, "1" * 200 + "e99"):
        answer = await answered("untyped", DOORS[door].replace("HERE", text))
        assert "too large" not in str(answer.get("error"))


async def test_an_argument_of_json_text_has_none_either() -> None:
    for text in ('"[1e400]"', '"{\\"x\\": -1e999}"', '"[NaN]"'):
        result = await called("several" if "[" in text else "objects", text)
        assert result["isError"] is True and got == []


@pytest.mark.parametrize("text", WORDS)
@pytest.mark.parametrize("tool", list(VALUES))
async def test_no_tool_gets_a_word_for_one(tool: str, text: str) -> None:
    result = await called(tool, VALUES[tool].replace("HERE", text))
    assert result["isError"] is True and got == []
    assert "invalid arguments" in result["content"][0]["text"]


@pytest.mark.parametrize("text", ["1e308", "-1e-400", "1.5"])
@pytest.mark.parametrize("tool", list(VALUES))
async def test_the_largest_and_the_smallest_are_numbers(tool: str, text: str) -> None:
    assert not (await called(tool, VALUES[tool].replace("HERE", text))).get("isError") and len(got) == 1


async def test_a_type_that_declares_infinity_gets_the_word() -> None:
    await called("declared", '"inf"')
    assert got == [float("inf")]
