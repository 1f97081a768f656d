"""Tools of strings, numbers and booleans: no model is built for them at the start, and nothing else differs."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from typing import Annotated, Any

import pytest
from pydantic import Field

from mcp_generated import App
from mcp_products.fast import switches
from mcp_runtime.errors import LocalError

SCALARS: dict[type, Any] = {str: "a text", int: 7, float: 1.5, bool: True}
RIGHT_AND_WRONG: list[dict[str, Any]] = [
    {"value": value} for value in ("text", "7", 7, 7.0, 1.5, True, None, [1], {"a": 1}, float("1e300"))
]
DOCSTRING = """Do something.

Args:
    value: The value,
        in two lines.
"""


def tool(hint: Any, default: Any, docstring: str) -> Any:
    def function(value: Any = default) -> Any:
        return value

    def required(value: Any) -> Any:
        return value

    chosen: Any = required if default is None else function
    chosen.__annotations__ = {"value": hint, "return": hint}
    chosen.__doc__ = docstring
    chosen.__name__ = "function"
    return chosen


async def seen(hint: Any, default: Any, docstring: str, coerce: bool) -> list[Any]:
    """Return what a client sees of a tool: its definition, and its results for right and wrong arguments."""
    app = App("x", coerce=coerce)
    app.tool(tool(hint, default, docstring))
    results = [await app.call_tool("function", arguments) for arguments in [*RIGHT_AND_WRONG, {}, {"other": 1}]]
    return [[item.to_dict() for item in await app.list_tools()], [result.to_dict() for result in results]]


@pytest.mark.parametrize("scalar", SCALARS)
async def test_a_scalar_is_the_same_as_one_that_pydantic_reads(scalar: type) -> None:
    for default, docstring, coerce in product((None, SCALARS[scalar]), ("", DOCSTRING), (False, True)):
        plain = await seen(scalar, default, docstring, coerce)
        assert plain == await seen(Annotated[scalar, Field()], default, docstring, coerce)


async def test_a_function_without_parameters_is_the_same_too() -> None:
    app = App("x")

    @app.tool
    def none() -> str:
        return "none"

    [listed] = await app.list_tools()
    assert listed.to_dict()["inputSchema"] == {"type": "object", "additionalProperties": False, "properties": {}}
    assert (await app.call_tool("none", {})).to_dict()["structuredContent"] == {"result": "none"}


async def test_a_value_of_another_type_than_declared_is_an_error() -> None:
    app = App("x")

    @app.tool
    def number() -> int:
        return "seven"  # type: ignore[return-value]

    assert (await app.call_tool("number", {})).is_error


@pytest.mark.parametrize(("hint", "default"), [(int, "seven"), (str, 7), (float, "much"), (bool, 3)])
def test_a_default_of_another_type_is_refused_where_it_is_written(hint: type, default: Any) -> None:
    with pytest.raises(LocalError, match="the default .* of 'value' does not fit its type"):
        App("x").tool(tool(hint, default, ""))


@pytest.mark.parametrize(
    "settings", [{"annotations": {"readOnlyHint": "perhaps"}}, {"annotations": {"readonlyHint": True}}, {"icons": [{}]}]
)
def test_a_wrong_keyword_is_refused_where_it_is_written(settings: dict[str, Any]) -> None:
    with pytest.raises(LocalError, match="the tool 'function'"):
        App("x").tool(**settings)(tool(int, None, ""))


CODE = """
import asyncio, sys
from mcp_generated import App
app = App("x")

@app.tool
def add(a: int, b: int = 2) -> int:
    "Add two numbers."
    return a + b

print(*(name for name in sys.modules if name.startswith("mcp_generated.") and ".types." in name))
print(*(name for name in sys.modules if name in {"importlib.metadata", "mcp_runtime.client", "mcp_runtime.tasks"}))
"""


@pytest.mark.skipif(not switches.ENABLED, reason="this is what the fast paths are for")
def test_an_app_with_such_a_tool_creates_no_types_of_the_protocol() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "\n\n"
