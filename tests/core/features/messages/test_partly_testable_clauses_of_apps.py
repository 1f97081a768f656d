"""Clauses that a library can only help with: what an app does for them, for clients with and without a handshake."""

from __future__ import annotations

from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, INVALID_PARAMS, Rev, among, both, text_of

from mcp_generated import App
from mcp_generated.v2026_07_28.types import ImageContent
from mcp_products.app.components.completion import rank_completions
from mcp_products.app.components.uris import is_https_url
from mcp_runtime.errors import JSONRPCError, LocalError, RemoteJSONRPCError

SECRET = "the launch code is 4711"


def guarded_app(ran: list[str]) -> App:
    """An app with one of each, which nobody but those who are let in may use."""
    app = App("guarded")

    @app.tool()
    def launch() -> str:
        """Launch."""
        ran.append("launch")
        raise ValueError(SECRET)

    @app.resource("secret://{name}")
    def read(name: str) -> str:
        ran.append("read")
        return SECRET

    @app.prompt()
    def brief(city: str) -> str:
        ran.append("brief")
        return city

    @app.completion()
    async def complete(ref: Any, argument: Any) -> list[str]:
        ran.append("complete")
        return rank_completions(["Berlin", "Bern", "Oberhausen", "Hamburg", "Brelin"], argument.value)

    return app


@both("tools", (8, 9, 13))
@both("resources", (8, 8, 9), (10, 10, 11))
@both("completion", (10, 15, 15))
@among(ALL_REVISIONS)
async def test_who_may_not_use_it_is_refused_before_anything_runs(rev: Rev) -> None:
    ran: list[str] = []
    app = guarded_app(ran)

    @app.middleware
    async def only_listing(name: str, ctx: Any, params: Any, go: Any) -> Any:
        if not name.startswith("list_"):
            raise JSONRPCError(INVALID_PARAMS, "not for you")
        return await go(ctx, params)

    async with rev.package.Client.memory(app.server, revisions="all") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["launch"]
        for asking in (
            client.call_tool(name="launch"),
            client.read_resource(uri="secret://x"),
            client.complete(ref=ref(rev, "brief"), argument=rev.t.CompletionArgument(name="city", value="b")),
        ):
            with pytest.raises(RemoteJSONRPCError, match="not for you"):
                await asking
    assert ran == []


@both("resources", (3, 3, 3), (4, 4, 4))
@among(ALL_REVISIONS)
async def test_an_https_resource_is_one_that_clients_can_fetch_and_others_have_another_scheme(
    rev: Rev, caplog: pytest.LogCaptureFixture
) -> None:
    app, inner = App("press"), App("archive")
    app.mount(inner, "old")

    @app.resource("press://{number}")
    def draft(number: str) -> str:
        return f"draft {number}"

    @app.resource("press://index")
    def index() -> str:
        return "1, 2"

    @inner.resource("https://example.com/press/1", public=True)
    def release() -> str:
        return "release 1"

    assert not caplog.messages

    @app.resource("https://example.com/press/{number}/secret")
    def number_of_press_release(number: str) -> str:
        return number

    [warning] = caplog.messages
    assert "'https://example.com/press/{number}/secret'" in warning and "another scheme" in warning
    with pytest.raises(LocalError, match="cannot be public"):
        app.resource("press://2", public=True)(index)

    async with rev.package.Client.memory(app.server, revisions="all") as client:
        uris = [resource.uri for resource in (await client.list_resources()).resources]
        assert [uri for uri in uris if is_https_url(uri)] == ["https://example.com/press/1"]
        texts = {uri: (await client.read_resource(uri=uri)).contents[0].text for uri in uris}  # Who cannot, may ask.
        assert texts == {"press://index": "1, 2", "https://example.com/press/1": "release 1"}


@pytest.mark.parametrize("uri", ["http://example.com/a", "https:///a", "https:a", "https://[a", "file:///https://a"])
def test_no_other_uri_is_fetched_from_the_web(uri: str) -> None:
    assert not is_https_url(uri)


def ref(rev: Rev, name: str) -> Any:
    return rev.t.PromptReference(name=name)


@both("completion", (1, 6, 6), (2, 7, 7), (11, 16, 16))
@among(ALL_REVISIONS)
async def test_suggestions_are_ranked_forgiving_and_only_of_what_is_known(rev: Rev) -> None:
    app = guarded_app([])
    async with rev.package.Client.memory(app.server, revisions="all") as client:

        async def suggested(name: str, typed: str) -> list[str]:
            argument = rev.t.CompletionArgument(name="city", value=typed)
            values: list[str] = (await client.complete(ref=ref(rev, name), argument=argument)).completion.values
            return values

        assert await suggested("brief", "ber") == ["Berlin", "Bern", "Oberhausen"]
        assert await suggested("brief", "Berln") == ["Berlin", "Bern", "Brelin"]
        assert await suggested("brief", "xyz") == []
        with pytest.raises(RemoteJSONRPCError, match="unknown completion reference"):
            await suggested("unknown", "ber")


@both("tools", (10, 11, 15))
@both("prompts", (13, 14, 14))
@among(ALL_REVISIONS)
async def test_no_exception_is_shown_to_a_model_and_what_a_prompt_needs_and_gives_is_checked(rev: Rev) -> None:
    ran: list[str] = []
    app = guarded_app(ran)

    @app.tool()
    def report() -> str:
        return f"all is well, and {SECRET}"

    @app.prompt()
    def picture() -> Any:
        return ImageContent(data="no base64", mime_type="image/png")

    @app.middleware
    async def clean(name: str, ctx: Any, params: Any, go: Any) -> Any:
        answer = await go(ctx, params)
        for block in getattr(answer, "content", ()):
            block.text = block.text.replace(SECRET, "***")
        return answer

    async with rev.package.Client.memory(app.server, revisions="all") as client:
        assert text_of((await client.call_tool(name="report")).content) == "all is well, and ***"
        with pytest.raises(RemoteJSONRPCError, match="internal error"):
            await client.get_prompt(name="picture")
        result = await client.call_tool(name="launch")
        assert (
            result.is_error and "4711" not in result.model_dump_json() and "Traceback" not in result.model_dump_json()
        )
        with pytest.raises(RemoteJSONRPCError, match="city"):
            await client.get_prompt(name="brief", arguments={})
    assert ran == ["launch"]
