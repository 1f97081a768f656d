"""Decorators with and without parentheses, and the keywords of every public call."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, get_type_hints

import pytest
from pydantic import Field
from support.clients import connect

from mcp_generated import App, tool
from mcp_generated import Client as OneClient
from mcp_generated.v2026_07_28 import Client
from mcp_generated.v2026_07_28 import types as t
from mcp_products.app import other_names
from mcp_runtime.usage.keywords import keywords_of

FORMS: dict[str, Callable[[Any], Any]] = {
    "without parentheses": lambda decorator: decorator,
    "with empty parentheses": lambda decorator: decorator(),
}
NAMED: dict[str, Callable[[Any], Any]] = {
    **FORMS,
    "with a keyword": lambda decorator: decorator(title="Title"),
    "with a name": lambda decorator: decorator("greet"),
    "with the name as a keyword": lambda decorator: decorator(name="greet"),
    "with None as the name": lambda decorator: decorator(None),
}


@pytest.mark.parametrize("form", NAMED)
async def test_a_tool_is_registered_and_the_function_stays(form: str) -> None:
    app = App("forms")

    def greet(name: str) -> str:
        return f"Hello, {name}"

    assert NAMED[form](app.tool)(greet) is greet
    [listed] = await app.list_tools()
    assert listed.name == "greet"
    assert (await app.call_tool("greet", {"name": "Ada"})).content == [t.TextContent(text="Hello, Ada")]


@pytest.mark.parametrize("form", NAMED)
async def test_a_prompt_is_registered_and_the_function_stays(form: str) -> None:
    app = App("forms")

    def greet(name: str) -> str:
        return f"Greet {name}"

    assert NAMED[form](app.prompt)(greet) is greet
    [listed] = await app.list_prompts()
    assert listed.name == "greet"
    [message] = (await app.get_prompt("greet", {"name": "Ada"})).messages
    assert message.content == t.TextContent(text="Greet Ada")


@pytest.mark.parametrize("form", FORMS)
async def test_completions_and_middleware_are_registered_and_the_functions_stay(form: str) -> None:
    app = App("forms")
    seen: list[str] = []
    app.add_prompt(lambda city: city, "visit")

    def complete(ref: Any, argument: Any, context: Any) -> list[str]:
        return ["Paris"]

    async def record(name: str, ctx: Any, params: Any, call_next: Any) -> Any:
        seen.append(name)
        return await call_next(ctx, params)

    assert FORMS[form](app.completion)(complete) is complete
    assert FORMS[form](app.middleware)(record) is record
    argument = t.CompletionArgument(name="city", value="P")
    result = await app.complete(ref=t.PromptReference(name="visit"), argument=argument)
    assert (result.completion.values, seen) == (["Paris"], ["complete"])


async def test_a_function_is_registered_by_a_call_as_well() -> None:
    app = App("forms")

    def greet() -> str:
        return "Hello"

    app.tool(greet)
    app.tool(greet, name="hello", title="Hello")
    assert [(listed.name, listed.title) for listed in await app.list_tools()] == [("greet", None), ("hello", "Hello")]


async def test_methods_are_marked_with_and_without_parentheses() -> None:
    class Shop:
        @tool
        def first(self) -> str:
            return "1"

        @tool()
        def second(self) -> str:
            return "2"

        @tool("third", title="Third")
        def other(self) -> str:
            return "3"

        def unmarked(self) -> str:
            return ""

    app = App("shop")
    app.add_tools(Shop())
    assert {listed.name for listed in await app.list_tools()} == {"first", "second", "third"}
    assert (await app.call_tool("second")).content == [t.TextContent(text="2")]


async def test_a_list_as_default_is_not_shared_by_calls() -> None:
    app = App("defaults")

    @app.tool
    def collect(items: list[str] = []) -> int:  # noqa: B006  This is what users write.
        items.append("new")
        return len(items)

    results = [await app.call_tool("collect") for _ in range(2)]
    assert [result.structured_content for result in results] == [{"result": 1}, {"result": 1}]


async def test_defaults_of_every_kind_are_accepted_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    class Place:
        def __init__(self, city: str) -> None:
            self.city = city

    app = App("defaults")

    def visit(
        place: Place = Place("Rome"),  # noqa: B008  This is what users write.
        places: list[Place] = [Place("Oslo")],  # noqa: B006, B008
        unit: Annotated[str, Field(alias="scale", max_length=1)] = "C",
        days: float = 1,
        note: Any = None,
    ) -> str:
        return f"{place.city} {places[0].city} {unit} {days} {note}"

    visit.__annotations__ = {**visit.__annotations__, "place": Place, "places": list[Place], "note": str}
    app.tool(visit)
    result = await app.call_tool("visit")
    assert result.content == [t.TextContent(text="Rome Oslo C 1 None")]
    assert [str(warning.message) for warning in recwarn] == []


async def test_a_client_of_any_revision_connects_to_an_app(revision: str) -> None:
    app = App("any")

    @app.tool
    def greet() -> str:
        return "Hello"

    client_class = import_module(f"mcp_generated.v{revision.replace('-', '_')}").Client
    for client in (client_class.memory(app), connect(app, client=client_class), connect(app)):
        async with client:
            assert [block.text for block in (await client.call_tool("greet")).content] == ["Hello"]


def sending_methods(requester: type[Any]) -> list[str]:
    """Return the names of the generated methods that send a message."""
    functions = inspect.getmembers(requester, inspect.isfunction)
    generated = [(name, function) for name, function in functions if function.__module__.startswith("mcp_generated")]
    return [name for name, function in generated if "options" in inspect.signature(function).parameters]


def values_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return any value for the parameters without defaults."""
    parameters = inspect.signature(function).parameters.values()
    required = [parameter for parameter in parameters if parameter.default is parameter.empty]
    return {p.name: None for p in required if p.name != "self" and p.kind is not p.VAR_KEYWORD}


async def test_every_method_of_clients_and_contexts_names_the_nearest_keyword(revision: str) -> None:
    package = import_module(f"mcp_generated.v{revision.replace('-', '_')}")
    for requester in (package.Client, package.Server.context, package.Server):
        names = sending_methods(requester)
        assert names or requester is package.Server
        for name in names:
            method = getattr(requester, name)
            sender = package.Server(name="x", version="1") if requester is package.Server else object.__new__(requester)
            with pytest.raises(
                TypeError, match=r"has no keyword argument 'optoins'; did you mean 'options'\?"
            ) as caught:
                result = method(sender, **values_of(method), optoins=None)
                if inspect.isawaitable(result):
                    await result
            shown = str(caught.value).partition("(")[0]
            assert shown == method.__name__, str(caught.value)


async def test_every_method_of_an_app_names_the_nearest_keyword() -> None:
    app = App("methods")
    names = [name for name in sending_methods(Client) if hasattr(App, name)]
    assert {"call_tool", "read_resource", "get_prompt", "complete"} <= {*names}
    for name in names:
        method = getattr(app, name)
        arguments = values_of(getattr(App, name))
        with pytest.raises(TypeError, match=rf"{name}\(\) has no keyword argument 'timeot'"):
            await method(**{key: value for key, value in arguments.items() if key != "self"}, timeot=3)


def keywords_by_group() -> dict[str, set[str]]:
    """Return all keywords of the functions that a group of rows of other SDKs is for."""
    from mcp_products.app.settings import ResourceSettings, ToolSettings
    from mcp_runtime.bindings.arguments import ConnectSettings, HTTPServerSettings
    from mcp_runtime.session.requests import RequestKeywords

    calls = inspect.signature(Client.call_tool).parameters
    return {
        "tool": {*keywords_of(ToolSettings, ResourceSettings)},
        "run": {*keywords_of(HTTPServerSettings)},
        "App": {*inspect.signature(App.__init__).parameters},
        "Client": {*keywords_of(ConnectSettings), "revisions", *inspect.signature(OneClient.__init__).parameters},
        "call_tool": {*keywords_of(RequestKeywords), *calls},
    }


@pytest.mark.parametrize("group", keywords_by_group())
def test_what_replaces_a_keyword_of_another_sdk_exists(group: str) -> None:
    names = keywords_by_group()[group]
    rows = other_names._rows(group)
    assert rows
    texts = [(key, text) for key, row in rows.items() for text in ((row,) if isinstance(row, str) else row)]
    replacements = {text for keyword, text in texts if text.isidentifier() and keyword not in names}
    assert replacements - names == set()
    handlers = {name for _, text in texts for name in re.findall(r"override the method (\w+)", text)}
    assert [name for name in handlers if not hasattr(Client, name)] == []


def test_hints_of_the_decorators_can_be_evaluated() -> None:
    for method in (App.tool, App.prompt, App.resource, App.completion, App.middleware, App.add_tool, tool):
        assert "return" in get_type_hints(method)
