"""A generated method that lacks an argument names it, and names the keyword that was misspelt."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

from mcp_generated import REVISIONS, App, Context
from mcp_generated.v2026_07_28 import SyncClient
from mcp_runtime.usage.keywords import MISSING

Method = tuple[str, Callable[..., Any], list[str]]


def methods_of(owner: Any) -> Iterator[Method]:
    """Yield the generated methods of an object that need arguments: name, method, required arguments."""
    for name in dir(type(owner)):
        function = getattr(type(owner), name)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        parameters = inspect.signature(function).parameters
        required = [parameter.name for parameter in parameters.values() if parameter.default is MISSING]
        if required:
            yield name, getattr(owner, name), required


def unconnected(version: str) -> Iterator[Method]:
    """Yield the methods of a client that is not connected: arguments are checked before the connection."""
    yield from methods_of(import_module(f"mcp_generated.{REVISIONS[version]}").Client.stdio("server"))


@pytest.mark.parametrize("version", REVISIONS)
async def test_a_misspelt_required_keyword_of_a_client_names_the_nearest_one(version: str) -> None:
    methods = list(unconnected(version))
    assert {"call_tool", "get_prompt", "read_resource", "complete"} <= {name for name, _, _ in methods}
    for name, method, required in methods:
        with pytest.raises(TypeError) as caught:
            await method(**{f"{argument}s": "x" for argument in required})
        expected = f"{name}() has no keyword argument '{required[0]}s'; did you mean {required[0]!r}?"
        assert str(caught.value) == expected


@pytest.mark.parametrize("version", REVISIONS)
async def test_a_missing_argument_of_a_client_is_named(version: str) -> None:
    for name, method, required in unconnected(version):
        with pytest.raises(TypeError) as caught:
            await method()
        assert str(caught.value) == f"{name}() needs the argument {required[0]!r}: write {name}({required[0]}=…)"


async def test_the_methods_of_an_app_and_of_a_blocking_client_name_them_as_well() -> None:
    app = App("shop")
    methods = list(methods_of(app))
    assert {"call_tool", "get_prompt", "read_resource"} <= {name for name, _, _ in methods}
    for _, method, required in methods:
        with pytest.raises(TypeError, match=f"did you mean '{required[0]}'"):
            await method(**{f"{required[0]}s": "x"})
        with pytest.raises(TypeError, match=f"needs the argument '{required[0]}'"):
            await method()


def test_a_blocking_client_names_them_as_well() -> None:
    app = App("shop")

    @app.tool
    def sell(item: str) -> str:
        return item

    with SyncClient.memory(app.server) as client:
        methods = [method for method in methods_of(client) if method[0] == "call_tool"]
        assert methods
        for _, method, _ in methods:
            with pytest.raises(TypeError, match="did you mean 'name'"):
                method(nam="sell")
            with pytest.raises(TypeError, match="needs the argument 'name'"):
                method()
            assert method("sell", {"item": "tea"}).content[0].text == "tea"


async def test_a_context_names_them_as_well() -> None:
    app = App("shop")
    messages: list[str] = []

    @app.tool
    async def misspell(ctx: Context) -> str:
        notify: Any = ctx.notify_resource_updated
        for keywords in ({"ury": "data://x"}, {}):
            try:
                await notify(**keywords)
            except TypeError as error:
                messages.append(str(error))
        return ""

    await app.call_tool("misspell")
    assert messages == [
        "notify_resource_updated() has no keyword argument 'ury'; did you mean 'uri'?",
        "notify_resource_updated() needs the argument 'uri': write notify_resource_updated(uri=…)",
    ]
