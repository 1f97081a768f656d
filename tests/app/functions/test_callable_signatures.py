"""Tools of callables of every form: a client is asked for what the callable takes, and nothing else."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import Field
from support.clients import connect

from mcp_generated import App, Context, Depends, LocalError
from mcp_generated.v2026_07_28 import types as t


def base(a: int, b: int, c: str = "x") -> str:
    """Join three values.

    Args:
        b: The second one.
    """
    return f"{a}{b}{c}"


def passing(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        return function(*arguments, **keywords)

    return wrapper


def passing_async(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    async def wrapper(*arguments: Any, **keywords: Any) -> Any:
        return function(*arguments, **keywords)

    return wrapper


def with_first(function: Callable[..., Any]) -> Any:
    """Return a wrapper that passes the first argument itself, and says so by its parameters."""

    @functools.wraps(function)
    def wrapper(b: int, c: str = "y") -> Any:
        return function(1, b, c)

    return wrapper


def with_more(function: Callable[..., Any]) -> Any:
    """Return a wrapper with a parameter of its own."""

    @functools.wraps(function)
    def wrapper(*arguments: Any, loud: bool = False, **keywords: Any) -> Any:
        result = function(*arguments, **keywords)
        return result.upper() if loud else result

    return wrapper


def declared(function: Callable[..., Any]) -> Any:
    """Return a wrapper with a signature that is made by hand."""

    def wrapper(**arguments: Any) -> Any:
        return function(1, arguments["b"])

    parameter = inspect.Parameter("b", inspect.Parameter.KEYWORD_ONLY, annotation=int)
    vars(wrapper)["__signature__"] = inspect.Signature([parameter], return_annotation=str)
    wrapper.__name__ = "wrapper"
    return wrapper


class Joined:
    """An object that can be called."""

    def __call__(self, b: int, c: str = "x") -> str:
        return base(1, b, c)


class Wrapping:
    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._function(*arguments, **keywords)


class Holder:
    def method(self, b: int, c: str = "x") -> str:
        return base(1, b, c)

    @passing
    def decorated(self, b: int, c: str = "x") -> str:
        return base(1, b, c)

    @classmethod
    def of_class(cls, b: int, c: str = "x") -> str:
        return base(1, b, c)

    @staticmethod
    def static(b: int, c: str = "x") -> str:
        return base(1, b, c)

    def all_three(self, a: int, b: int, c: str = "x") -> str:
        return base(a, b, c)

    first = functools.partialmethod(all_three, 1)

    @functools.cache  # noqa: B019
    def cached(self, b: int, c: str = "x") -> str:
        return base(1, b, c)


def copied(function: functools.partial[Any]) -> Any:
    """Return a partial application with the name, the docstring and `__wrapped__` of its function."""
    return functools.update_wrapper(function, function.func)


def number(start: int, ctx: Context) -> int:
    return start + len(ctx.protocol_version)


# Callables that take `b` and `c`, of which `c` has a default.
CALLABLES: dict[str, Any] = {
    "partial": functools.partial(base, 1),
    "copied partial": copied(functools.partial(base, 1)),
    "partial of a copied partial": functools.partial(copied(functools.partial(base, 1))),
    "partial of a wrapper": functools.partial(passing(base), 1),
    "copied partial of a wrapper": copied(functools.partial(passing(base), 1)),
    "wrapper of a copied partial": passing(copied(functools.partial(base, 1))),
    "async wrapper of a copied partial": passing_async(copied(functools.partial(base, 1))),
    "wrapper of a wrapper": passing(passing(Holder.static)),
    "cached": functools.lru_cache(copied(functools.partial(base, 1))),
    "wrapper with fewer parameters": with_first(base),
    "wrapper of one with fewer parameters": passing(with_first(base)),
    "object": Joined(),
    "object that wraps": Wrapping(Holder.static),
    "object that wraps a copied partial": Wrapping(copied(functools.partial(base, 1))),
    "method": Holder().method,
    "decorated method": Holder().decorated,
    "method of the class": Holder.of_class,
    "static method": Holder.static,
    "partial method": Holder().first,
    "cached method": Holder().cached,
    "partial of a method": functools.partial(Holder().all_three, 1),
}


@pytest.mark.parametrize("name", CALLABLES)
async def test_a_client_is_asked_for_what_the_callable_takes(name: str) -> None:
    app = App("callables")
    app.add_tool(CALLABLES[name], "join")
    async with connect(app) as client:
        [tool] = (await client.list_tools()).tools
        assert [*tool.input_schema.to_dict()["properties"]] == ["b", "c"]
        assert tool.input_schema.to_dict()["required"] == ["b"]
        assert tool.input_schema.to_dict()["properties"]["b"]["type"] == "integer"
        assert tool.output_schema is not None
        result = await client.call_tool("join", {"b": 2})
        assert result.structured_content == {"result": "12y" if "fewer" in name else "12x"}
        assert (await client.call_tool("join", {"b": 2, "c": "z"})).structured_content == {"result": "12z"}


@pytest.mark.parametrize("copy", [False, True])
async def test_what_is_bound_by_keyword_is_a_default(copy: bool) -> None:
    bound = functools.partial(base, b=5)
    app = App("callables")
    app.add_tool(copied(bound) if copy else bound, "join")
    [tool] = await app.list_tools()
    assert tool.input_schema.to_dict()["required"] == ["a"]
    assert tool.input_schema.to_dict()["properties"]["b"]["default"] == 5
    assert (await app.call_tool("join", {"a": 1})).structured_content == {"result": "15x"}


async def test_a_partial_application_has_the_docstring_of_its_function() -> None:
    app = App("callables")
    app.add_tool(functools.partial(base, 1), "join")
    app.add_tool(Joined(), "object")
    tools = {tool.name: tool for tool in await app.list_tools()}
    assert tools["join"].description == "Join three values."
    assert tools["join"].input_schema.to_dict()["properties"]["b"]["description"] == "The second one."
    assert tools["object"].description == "An object that can be called."


async def test_a_wrapper_may_add_parameters() -> None:
    app = App("callables")
    app.add_tool(with_more(base))
    [tool] = await app.list_tools()
    assert [*tool.input_schema.to_dict()["properties"]] == ["a", "b", "c", "loud"]
    assert (await app.call_tool("base", {"a": 1, "b": 2, "loud": True})).structured_content == {"result": "12X"}


async def test_a_signature_that_is_made_by_hand_counts() -> None:
    app = App("callables")
    app.add_tool(declared(base))
    [tool] = await app.list_tools()
    assert tool.input_schema.to_dict()["properties"] == {"b": {"type": "integer"}}
    assert (await app.call_tool("wrapper", {"b": 2})).structured_content == {"result": "12x"}


async def test_prompts_resources_completions_and_dependencies_take_the_same() -> None:
    app = App("callables")
    app.add_prompt(copied(functools.partial(base, 1)))
    app.add_resource("data://{b}", copied(functools.partial(base, 1)))

    def suggest(kind: str, ref: Any, argument: Any) -> list[str]:
        return [kind, argument.value]

    app.completion(copied(functools.partial(suggest, "a")))

    @app.tool
    def use(value: Annotated[int, Depends(copied(functools.partial(number, 5)))]) -> int:
        return value

    async with connect(app) as client:
        assert (await client.get_prompt("base", {"b": "2"})).messages[0].content.text == "12x"  # pyright: ignore
        assert (await client.read_resource("data://2")).contents[0].text == "12x"  # pyright: ignore
        completed = await client.complete(t.PromptReference(name="base"), t.CompletionArgument(name="b", value="z"))
        assert completed.completion.values == ["a", "z"]
        assert (await client.call_tool("use", {})).structured_content == {"result": 15}


def test_a_wrapper_that_takes_arguments_by_position_only_is_refused() -> None:
    @functools.wraps(base)
    def wrapper(*arguments: Any) -> Any:
        return base(*arguments)

    with pytest.raises(LocalError, match="must accept a keyword argument"):
        App("callables").add_tool(wrapper)


@functools.singledispatch
def chosen(value: int | str, more: int = 1) -> str:
    return f"any {value} {more}"


@chosen.register
def _(value: str, more: int = 1) -> str:
    return f"text {value} {more}"


@pytest.mark.parametrize("function", [chosen, passing(chosen), functools.partial(chosen, more=2)])
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "dependency"])
def test_a_function_that_chooses_by_its_first_argument_is_refused(kind: str, function: Any) -> None:
    app = App("callables")

    def depending(value: int, chosen: str = Depends(function)) -> str:
        return f"{value} {chosen}"

    add: dict[str, Callable[[], Any]] = {
        "tool": lambda: app.add_tool(function, "chosen"),
        "prompt": lambda: app.add_prompt(function, "chosen"),
        "resource": lambda: app.add_resource("data://{value}", function, name="chosen"),
        "dependency": lambda: app.add_tool(depending),
    }
    with pytest.raises(LocalError, match=r"must accept a keyword( argument: .* or write a def that passes it|\n)"):
        add[kind]()


async def test_what_such_a_function_has_bound_by_position_is_chosen_by() -> None:
    app = App("callables")
    app.add_tool(functools.partial(chosen, "x"), "chosen")
    assert (await app.call_tool("chosen", {"more": 3})).structured_content == {"result": "text x 3"}


def test_a_hint_that_cannot_be_evaluated_is_named() -> None:
    def wrong(a: Annotated[int, Field(ge=1)]) -> int:
        return a

    wrong.__annotations__["a"] = "Missing"
    with pytest.raises(LocalError, match="a type hint cannot be evaluated: name 'Missing'"):
        App("callables").add_tool(functools.partial(wrong), "wrong")
