"""Dependencies whose values come from the client: forms, samples, roots."""

import inspect
from importlib import import_module
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from support.endpoints import Rev, among, since

from mcp_generated import App, Context, Elicit, ListRoots, Resolve, Sample
from mcp_generated.v2026_07_28 import types as t
from mcp_products.versions.adapters import server_candidates

HAS_FORMS = "schema" in inspect.signature(Context.elicit).parameters
forms = pytest.mark.skipif(not HAS_FORMS, reason="Context.elicit(message, Model) is not there yet")


class Login(BaseModel):
    username: str


class Size(BaseModel):
    size: int


def client(rev: Rev, app: App, requests: list[str], action: str = "accept") -> Any:
    """A client that answers forms, samples and requests for its roots."""
    types = rev.t

    class Answering(rev.package.Client):  # type: ignore[name-defined, misc]
        async def on_elicit(self, ctx: Any, params: Any) -> Any:
            requests.append(params.message)
            content = {"username": "ann"} if "name" in params.message else {"size": 5}
            return types.ElicitResult(action=action, content=content if action == "accept" else None)

        async def on_create_message(self, ctx: Any, params: Any) -> Any:
            requests.append(f"sample {params.max_tokens}")
            content = types.TextContent(text="Rome")
            return types.CreateMessageResult(role="assistant", content=content, model="m")

        async def on_list_roots(self, ctx: Any, params: Any) -> Any:
            requests.append("roots")
            return types.ListRootsResult(roots=[types.Root(uri="file:///work")])

    return Answering.memory(*server_candidates(app.server, "all"))


def text(result: Any) -> str:
    [block] = result.content
    return str(block.text)


async def sample(country: str) -> Sample:
    message = t.SamplingMessage(role="user", content=t.TextContent(text=f"The capital of {country}?"))
    return Sample([message], max_tokens=7, temperature=0.5)


def roots() -> ListRoots:
    return ListRoots()


@among(since("2025-06-18"))
async def test_samples_and_roots_are_values(rev: Rev) -> None:
    app, requests = App("app"), list[str]()

    @app.tool()
    async def tool(
        country: str,
        answer: Annotated[Any, Resolve(sample)],
        again: Annotated[Any, Resolve(sample)],
        roots: Annotated[Any, Resolve(roots)],
    ) -> str:
        assert answer is again
        return f"{answer.content.text} {roots.roots[0].uri}"

    async with client(rev, app, requests) as connected:
        result = await connected.call_tool(name="tool", arguments={"country": "Italy"})
    assert text(result) == "Rome file:///work"
    assert sorted(requests) == ["roots", "sample 7"]


async def login() -> Login | Elicit[Login]:
    return Elicit("Your name?", Login)


async def size(login: Annotated[Login, Resolve(login)]) -> Elicit[Size]:
    return Elicit(f"The size for {login.username}?", Size)


def other() -> Elicit[Size]:
    return Elicit("Another size?", Size)


@forms
@among(since("2025-06-18"))
async def test_forms_are_values_of_dependencies_and_of_those_that_depend_on_them(rev: Rev) -> None:
    app, requests = App("app"), list[str]()

    @app.tool()
    async def tool(
        login: Annotated[Login, Resolve(login)],
        size: Annotated[Size, Resolve(size)],
        other: Annotated[Size, Resolve(other)],
    ) -> str:
        return f"{login.username} {size.size} {other.size}"

    async with client(rev, app, requests) as connected:
        assert text(await connected.call_tool(name="tool")) == "ann 5 5"
    assert sorted(requests) == ["Another size?", "The size for ann?", "Your name?"]


@forms
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
@among(since("2025-06-18"))
async def test_a_declined_form_fails_the_call_or_is_the_value(rev: Rev, action: str) -> None:
    results = import_module("mcp_generated")
    kinds = ("AcceptedElicitation", "DeclinedElicitation", "CancelledElicitation")
    accepted, declined, cancelled = (getattr(results, kind) for kind in kinds)
    app, requests = App("app"), list[str]()

    @app.tool()
    async def strict(login: Annotated[Login, Resolve(login)]) -> str:
        return login.username

    @app.tool()
    async def lenient(login: Annotated[accepted[Login] | declined | cancelled, Resolve(login)]) -> str:
        return f"{login.action} {login.data}"

    async with client(rev, app, requests, action) as connected:
        result = await connected.call_tool(name="strict")
        assert (result.is_error is True) is (action != "accept")
        assert "ann" in text(result) if action == "accept" else repr(action) in text(result)
        assert text(await connected.call_tool(name="lenient")).startswith(action)
