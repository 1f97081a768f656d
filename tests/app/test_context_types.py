"""Types in the context of an app: its own type parameters, the types of forms and of sampled values, and of states."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field
from support.endpoints import ALL_REVISIONS
from support.http.in_process import asking

from mcp_generated import App, Context, InMemoryStateStore, LocalError, ServerSession
from mcp_generated import v2026_07_28 as newest
from mcp_products.app.context.elicitation import Form
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.errors import InvalidResponseError

t: Any = newest.types


@dataclass
class State:
    """What the lifespan yields."""

    name: str


@asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[State]:
    """Yield the state."""
    yield State("main")


async def bare(a: int, ctx: Context) -> str:
    return str(ctx.state.name)


async def with_state(a: int, ctx: Context[State]) -> str:
    return ctx.state.name


async def of_version_one(a: int, ctx: Context[ServerSession, State]) -> str:
    return ctx.state.name


async def of_three(a: int, ctx: Context[ServerSession, State, Any]) -> str:
    return ctx.request_context.lifespan_context.name


async def of_version_two(a: int, ctx: Context[State, Any]) -> str:
    return ctx.request_context.lifespan_context.name


async def without_session(a: int, ctx: Context[ServerSession, None]) -> str:
    return "main"


async def optional(a: int, ctx: Context[State] | None = None) -> str:
    assert ctx is not None
    return ctx.state.name


async def old_optional(a: int, ctx: Optional[Context[State]] = None) -> str:  # noqa: UP045
    assert ctx is not None
    return ctx.state.name


async def annotated(a: int, ctx: Annotated[Context[State], "the context"]) -> str:
    return ctx.state.name


def plain(a: int, ctx: Context[State]) -> str:
    return ctx.state.name


SPELLINGS: list[Callable[..., Any]] = [
    *(
        bare,
        with_state,
        of_version_one,
        of_version_two,
        of_three,
        without_session,
        optional,
        old_optional,
        annotated,
        plain,
    )
]


@pytest.mark.parametrize("function", SPELLINGS, ids=lambda function: function.__name__)
async def test_a_context_with_type_parameters_is_injected(function: Callable[..., Any]) -> None:
    app = App("typed", lifespan=lifespan)
    app.add_tool(function)
    [tool] = await app.list_tools()
    assert [*tool.input_schema.model_dump()["properties"]] == ["a"]
    assert (await app.call_tool(function.__name__, {"a": 1})).content == [t.TextContent(text="main")]


# ---- forms -----------------------------------------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Numbers(Enum):
    ONE = 1


class Everything(BaseModel):
    text: str = Field(title="Text", description="Some text", min_length=1, max_length=5)
    day: date
    count: Annotated[int, Field(gt=0, lt=10)] = 3
    share: float | None = None
    colour: Colour = Colour.RED
    same: Colour
    kind: Literal["a"] = "a"
    several: list[Literal["x", "y"]] = Field(default=["x"], min_length=1)


class Nested(BaseModel):
    inner: Everything


def test_a_form_has_only_what_clients_can_show() -> None:
    schema = Form(Everything).schema
    colours = {"type": "string", "enum": ["red", "blue"]}
    assert schema["properties"]["text"] == {
        "type": "string",
        "title": "Text",
        "description": "Some text",
        "minLength": 1,
        "maxLength": 5,
    }
    assert schema["properties"]["day"] == {"type": "string", "title": "Day", "format": "date"}
    assert schema["properties"]["count"] == {
        "type": "integer",
        "title": "Count",
        "default": 3,
        "minimum": 1,
        "maximum": 9,
    }
    assert schema["properties"]["share"] == {"type": "number", "title": "Share"}
    assert schema["properties"]["colour"] == {"title": "Colour", "default": "red", **colours}
    assert schema["properties"]["same"]["enum"] == ["red", "blue"]
    assert schema["properties"]["kind"]["enum"] == ["a"]
    assert schema["properties"]["several"]["items"] == {"type": "string", "enum": ["x", "y"]}
    assert schema["required"] == ["text", "day", "same"]
    t.ElicitRequestFormParams.model_validate({"message": "m", "requestedSchema": schema})


def test_a_form_reads_the_values_of_its_type() -> None:
    values = Form(Everything).read({"text": "x", "day": "2026-01-02", "same": "blue"})
    assert (values.day, values.same, values.count) == (date(2026, 1, 2), Colour.BLUE, 3)
    assert Form(Colour).read({"value": "red"}) is Colour.RED
    assert Form(list[Colour]).read({"value": ["red", "blue"]}) == [Colour.RED, Colour.BLUE]
    with pytest.raises(InvalidResponseError, match="Everything has invalid values: text"):
        Form(Everything).read({"text": "", "day": "2026-01-02", "same": "blue"})


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (Nested, "the field 'inner' of Nested"),
        (None, "elicit(message, bool)"),
        (dict[str, int], "dict"),
        (list[str], "list"),
        (bytes, "bytes"),
        (Numbers, "Numbers"),
        (str | int, "str"),
        ([], "choices are strings"),
        ([1, 2], "choices are strings"),
        ({}, "choices are strings"),
        (object, "object"),
    ],
    ids=str,
)
def test_a_type_that_does_not_fit_into_a_form_is_refused(shape: Any, text: str) -> None:
    with pytest.raises(TypeError, match="elicit") as caught:
        Form(shape)
    assert text in str(caught.value) and str(caught.value).count("\n") < 2


async def test_wrong_arguments_are_refused() -> None:
    app, errors = App("wrong"), list[Exception]()

    @app.tool()
    async def all_wrong(ctx: Context) -> str:
        untyped: Any = ctx
        for call in (
            lambda: untyped.log("warn", "x"),
            lambda: untyped.elicit("m", str, response_type=int),
            lambda: untyped.elicit("m", Everything, response_title="x"),
            lambda: untyped.sample("m", temperatur=1),
            lambda: untyped.sample(5),
            lambda: untyped.sample("m", model_preferences=5),
            lambda: untyped.set_state(5, 1),
            lambda: untyped.set_state("x", object()),
            lambda: untyped.session.elicit_form("m"),
        ):
            try:
                await call()
            except (TypeError, LocalError) as error:
                errors.append(error)
        return "done"

    await app.call_tool("all_wrong")
    texts = [str(error) for error in errors]
    words = ["'warn'", "`response_type`", "response_title", "temperatur", "int", "model_preferences", "set_state"]
    words += ["set_state('x')", "requested_schema"]
    assert len(texts) == len(words)
    assert [word for word, text in zip(words, texts, strict=True) if word not in text] == []


# ---- state -----------------------------------------------------------------------------------------------------------


def counting(store: Any = None) -> App:
    """Return an app that counts the calls of a session."""
    app = App("counting", session_state_store=store)

    @app.tool()
    async def count(ctx: Context) -> str:
        number = int(await ctx.get_state("count", 0)) + 1
        await ctx.set_state("count", number)
        return str(number)

    return app


async def test_stateless_requests_of_a_user_share_their_state_over_http() -> None:
    application = counting().asgi(owner=lambda scope: dict(scope["headers"]).get(b"x-user"))

    async def numbers(user: str, calls: int) -> list[str]:
        from mcp_generated.http import HTTPOptions

        options = HTTPOptions(client=asking(application), headers={"x-user": user})
        async with newest.Client.http("http://localhost/mcp", http=options) as client:
            return [(await client.call_tool("count")).content[0].text for _ in range(calls)]  # type: ignore[union-attr]

    assert await numbers("ada", 2) == ["1", "2"]
    assert await numbers("bob", 1) == ["1"]
    assert await numbers("ada", 1) == ["3"]
    await application.close()


async def test_stateless_requests_without_a_user_have_no_state_and_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    application = counting().asgi()
    from mcp_generated.http import HTTPOptions

    options = HTTPOptions(client=asking(application))
    with caplog.at_level(logging.WARNING):
        async with newest.Client.http("http://localhost/mcp", http=options) as client:
            texts = [(await client.call_tool("count")).content[0].text for _ in range(3)]  # type: ignore[union-attr]
    assert texts == ["1", "1", "1"]
    assert [record.message.partition(":")[0] for record in caplog.records] == ["set_state"]
    await application.close()


@pytest.mark.parametrize("rev", ALL_REVISIONS, ids=str)
async def test_sessions_do_not_share_their_state(rev: Any) -> None:
    store = InMemoryStateStore()
    app = counting(store)
    for _ in range(2):
        async with rev.package.Client.memory(*server_candidates(app.server, "all")) as client:
            texts = [(await client.call_tool(name="count")).content[0].text for _ in range(2)]
            assert texts == ["1", "2"]


async def test_a_store_drops_the_sessions_that_were_used_least() -> None:
    store = InMemoryStateStore(max_sessions=2)
    for session in ("a", "b", "c"):
        await store.set(session, "key", b"1")
    assert [await store.get(session, "key") for session in ("a", "b", "c")] == [None, b"1", b"1"]
    await store.delete("b", "key")
    assert await store.get("b", "key") is None
