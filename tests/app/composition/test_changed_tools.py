"""Changed copies of tools: names and texts, arguments, and functions around the call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from mcp_generated import App, ArgTransform, Context, Depends, LocalError, Tool, ToolError, forward, forward_raw
from mcp_runtime.errors import RemoteJSONRPCError


class Place(BaseModel):
    city: str


def search(query: str, limit: int = 10, key: str = "default") -> str:
    """Search for something."""
    return f"{query} {limit} {key}"


def example() -> App:
    app = App("app")
    app.add_tool(search, tags={"web"}, annotations={"readOnlyHint": True}, meta={"own": 1}, title="Search")

    @app.tool()
    def total(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    @app.tool()
    def weather(place: Place, day: date | None = None) -> str:
        return f"{place.city} {day}"

    return app


async def text(app: App, tool: str, **arguments: Any) -> str:
    """The text of a tool's result."""
    [block] = (await app.call_tool(tool, arguments)).content
    return block.text  # type: ignore[union-attr]


async def definition(app: App, name: str) -> dict[str, Any]:
    """The definition of a tool, as JSON."""
    return next(tool.model_dump() for tool in await app.list_tools() if tool.name == name)


async def test_a_copy_has_what_is_not_changed() -> None:
    app = example()
    app.add_tool(Tool.from_tool(search, "find"))
    copy, source = await definition(app, "find"), await definition(app, "search")
    assert copy.pop("name") == "find" and source.pop("name") == "search"
    copy["inputSchema"].setdefault("required", [])
    assert copy == source
    assert await text(app, "find", query="x", limit=3) == "x 3 default"


@pytest.mark.parametrize("source", ["by name", "by function", "by object"])
async def test_names_texts_and_arguments_change(source: str) -> None:
    app = example()
    tool: Any = {"by name": "search", "by function": search, "by object": await app.get_tool("search")}[source]
    changes = {
        "query": ArgTransform(name="q", description="What to find.", examples=["tea"]),
        "limit": ArgTransform(default=3),
        "key": ArgTransform(hide=True, default="secret"),
    }
    copy = Tool.from_tool(tool, "find", description="Find it.", title=None, tags={"new"}, transform_args=changes)
    app.add_tool(copy)
    listed = await definition(app, "find")
    assert listed["description"] == "Find it." and "title" not in listed
    assert listed["_meta"] == {"own": 1, "fastmcp": {"tags": ["new"]}}
    schema = listed["inputSchema"]
    assert schema["properties"]["q"] == {"type": "string", "description": "What to find.", "examples": ["tea"]}
    assert schema["properties"]["limit"]["default"] == 3 and schema["properties"].keys() == {"q", "limit"}
    assert schema["required"] == ["q"]
    assert await text(app, "find", q="x") == "x 3 secret"
    for arguments in ({}, {"q": "x", "key": "mine"}, {"query": "x"}, {"q": 5}, {"q": "x", "limit": "no"}):
        assert (await app.call_tool("find", arguments)).is_error, arguments
    assert await text(app, "search", query="x") == "x 10 default"


async def test_arguments_can_get_other_types_and_be_required() -> None:
    app = example()
    changes = {
        "query": ArgTransform(type=Literal["tea", "milk"]),
        "limit": ArgTransform(required=True),
        "key": ArgTransform(hide=True, default_factory=iter(["first", "second"]).__next__),
    }
    app.add_tool(Tool.from_tool("search", "find", transform_args=changes))
    schema = (await definition(app, "find"))["inputSchema"]
    assert schema["properties"]["query"]["enum"] == ["tea", "milk"] and schema["required"] == ["query", "limit"]
    assert await text(app, "find", query="tea", limit=1) == "tea 1 first"
    assert await text(app, "find", query="milk", limit=1) == "milk 1 second"
    assert "invalid arguments: query" in await text(app, "find", query="wine", limit=1)
    assert "limit is missing" in await text(app, "find", query="tea")


async def test_models_and_dates_stay_what_they_are() -> None:
    app = example()
    app.add_tool(Tool.from_tool("weather", "forecast", transform_args={"place": ArgTransform(name="where")}))
    assert await text(app, "forecast", where={"city": "Rome"}, day="2026-01-02") == "Rome 2026-01-02"
    schema = (await definition(app, "forecast"))["inputSchema"]
    assert "Place" in schema["$defs"] and schema["required"] == ["where"]


async def test_a_function_around_the_tool_can_change_its_call() -> None:
    app, calls = example(), list[str]()

    async def upper(query: str, **rest: Any) -> Any:
        """Ignored: the description is that of the tool."""
        result = await forward(query=query.upper(), **rest)
        calls.append(result.content[0].text)
        return result

    async def strict(q: str, ctx: Context, extra: str = Depends(lambda: "!")) -> str:
        if q == "wrong":
            raise ToolError("refused")
        assert isinstance(ctx, Context)
        return (await forward_raw(query=q + extra, limit=1, key="raw")).content[0].text  # type: ignore[no-any-return]

    def plain(query: str) -> str:
        return f"not called: {query}"

    app.add_tool(Tool.from_tool("search", "upper", transform_fn=upper, transform_args={"key": ArgTransform(hide=True)}))
    app.add_tool(Tool.from_tool("search", "strict", transform_fn=strict))
    app.add_tool(Tool.from_tool("search", "plain", transform_fn=plain))
    assert (await definition(app, "upper"))["description"] == "Search for something."
    assert (await definition(app, "upper"))["inputSchema"]["properties"].keys() == {"query", "limit"}
    assert (await definition(app, "strict"))["inputSchema"]["properties"].keys() == {"q"}
    assert await text(app, "upper", query="x", limit=2) == "X 2 default" == calls[0]
    assert (await app.call_tool("upper", {"query": "x", "key": "mine"})).is_error
    assert await text(app, "strict", q="x") == "x! 1 raw"
    assert await text(app, "strict", q="wrong") == "refused"
    assert (await app.call_tool("strict", {"q": "x", "limit": 3})).is_error
    assert await text(app, "plain", query="x") == "not called: x"


async def test_structured_content_is_that_of_the_tool_unless_it_is_removed() -> None:
    app = example()

    async def double(a: int, b: int) -> Any:
        return await forward(a=a * 2, b=b * 2)

    async def typed(a: int) -> Place:
        return Place(city=str((await forward(a=a, b=1)).structured_content))

    app.add_tool(Tool.from_tool("total", "double", transform_fn=double))
    app.add_tool(Tool.from_tool("total", "typed", transform_fn=typed))
    app.add_tool(Tool.from_tool("total", "text", output_schema=None))
    assert (await app.call_tool("double", {"a": 1, "b": 2})).structured_content == {"sum": 6}
    assert (await app.call_tool("typed", {"a": 1})).structured_content == {"city": "{'sum': 2}"}
    result = await app.call_tool("text", {"a": 1, "b": 2})
    assert "structuredContent" not in result.model_dump() and "3" in str(result.content)
    assert "outputSchema" not in await definition(app, "text")


async def test_the_exceptions_of_the_tool_reach_the_function_and_are_shown_as_the_app_says() -> None:
    app, caught = App("app", tool_errors=(KeyError,)), list[Exception]()

    @app.tool()
    async def work(kind: str) -> str:
        raise {"key": KeyError("shown"), "secret": OSError("secret"), "tool": ToolError("text")}[kind]

    async def around(kind: str) -> Any:
        try:
            return await forward(kind=kind)
        except OSError as error:
            caught.append(error)
            raise
        except ToolError:
            return "instead"

    app.add_tool(Tool.from_tool(work, "copy"))
    app.add_tool(Tool.from_tool(work, "around", transform_fn=around))
    for name in ("copy", "around"):
        assert await text(app, name, kind="key") == "'shown'"
        assert await text(app, name, kind="secret") == "the tool 'work' failed"
    assert len(caught) == 1 and await text(app, "around", kind="tool") == "instead"
    assert (await app.call_tool("copy", {"kind": "tool"})).is_error


async def test_a_tool_of_a_mounted_app_is_changed_and_hidden() -> None:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[str]:
        yield f"state of {app.name}"

    inner, outer = App("inner", lifespan=lifespan), App("outer", lifespan=lifespan)

    @inner.tool(scopes=["read"])
    async def state(ctx: Context, prefix: str) -> str:
        await asyncio.sleep(0)
        return prefix + str(ctx.state)

    async def twice(ctx: Context) -> str:
        one, two = await asyncio.gather(forward(prefix="1 "), forward(prefix="2 "))
        return f"{one.content[0].text}, {two.content[0].text}, {ctx.state}"

    outer.mount(inner, "sub")
    outer.add_tool(Tool.from_tool("sub_state", "twice", transform_fn=twice))
    outer.add_tool(Tool.from_tool(state, "copy", transform_args={"prefix": ArgTransform(hide=True, default="")}))
    outer.disable(names={"sub_state"})
    assert [tool.name for tool in await outer.list_tools()] == ["twice", "copy"]
    assert await text(outer, "twice") == "1 state of inner, 2 state of inner, state of outer"
    assert await text(outer, "copy") == "state of inner"
    assert (await outer.get_tool("twice")).scopes == ("read",)
    with pytest.raises(RemoteJSONRPCError, match="unknown tool"):
        await outer.call_tool("sub_state", {"prefix": ""})


async def test_forward_outside_of_a_function_around_a_tool_is_refused() -> None:
    for function in (forward, forward_raw):
        with pytest.raises(LocalError, match=r"forward(_raw)?\(\) can only be called in the `transform_fn`"):
            await function(x=1)


WRONG: dict[str, tuple[Any, str]] = {
    "unknown tool": (lambda: Tool.from_tool("serch"), "there is no tool 'serch'; the tools are 'search'"),
    "no tool": (lambda: Tool.from_tool(5), "5 is not a tool: pass its name"),  # type: ignore[arg-type]
    "name taken": (lambda: Tool.from_tool("search"), "has 'search' among its tools already"),
    "bad name": (lambda: Tool.from_tool("search", "a b"), "'a b' is not a tool name"),
    "unknown keyword": (lambda: Tool.from_tool("search", "x", args={}), "no keyword argument 'args'"),  # type: ignore[call-arg]
    "no ArgTransform": (
        lambda: Tool.from_tool("search", "x", transform_args={"query": "q"}),  # type: ignore[dict-item]
        r"transform_args\['query'\] must be ArgTransform",
    ),
    "unknown argument": (
        lambda: Tool.from_tool("search", "x", transform_args={"q": ArgTransform()}),
        "the tool has no argument 'q'; its arguments are 'query', 'limit', 'key'",
    ),
    "hidden without a value": (
        lambda: Tool.from_tool("search", "x", transform_args={"query": ArgTransform(hide=True)}),
        "the hidden argument 'query' needs a value",
    ),
    "two of a name": (
        lambda: Tool.from_tool("search", "x", transform_args={"query": ArgTransform(name="limit")}),
        "two arguments have the name 'limit'",
    ),
    "default and factory": (lambda: ArgTransform(default=1, default_factory=int), "not both"),
    "visible factory": (lambda: ArgTransform(default_factory=int), "needs hide=True"),
    "required and default": (lambda: ArgTransform(required=True, default=1), "has no default"),
    "required false": (lambda: ArgTransform(required=False), "set `default` instead"),  # type: ignore[arg-type]
    "hidden with a name": (lambda: ArgTransform(hide=True, name="x"), "a hidden argument has no name"),
    "empty name": (lambda: ArgTransform(name=""), "is not the name of an argument"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_changes_are_refused_where_they_are_written(mistake: str) -> None:
    make, message = WRONG[mistake]
    app = example()
    with pytest.raises((LocalError, TypeError), match=message) as caught:
        app.add_tool(make())
    assert len(str(caught.value).splitlines()) == 1
