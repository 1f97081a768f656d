"""What programs of FastMCP import and declare runs with `mcp_generated.compat`."""

from typing import Any

import pytest
from support.clients import connect
from support.http.in_process import asking

import mcp_generated.compat as compat
from mcp_generated import LocalError, RemoteJSONRPCError
from mcp_generated.compat import FastMCP, PromptError, ResourceError, ToolError, require_scopes


def test_each_name_of_the_list_is_there() -> None:
    missing = {name for name in compat.__all__ if getattr(compat, name, None) is None or name not in dir(compat)}
    assert len(compat.__all__) > 150 and missing == set()


# Names that the official SDK has, and this project for something else: the class of each is that of the official SDK.
OFFICIAL = {
    "AccessToken": "OfficialAccessToken",
    "AuthorizationCode": "StoredAuthorizationCode",
    "CacheHint": "MillisecondCacheHint",
    "EventStore": "StreamEventStore",
    "MCPError": "McpError",
    "Message": "Message",
    "OAuthClientProvider": "OfficialOAuthClientProvider",
    "OAuthToken": "OfficialOAuthToken",
    "RefreshToken": "StoredRefreshToken",
    "SubscriptionBus": "EventBus",
    "TokenStorage": "OfficialTokenStorage",
    "TokenVerifier": "OfficialTokenVerifier",
}


@pytest.mark.parametrize(("name", "class_name"), OFFICIAL.items())
def test_a_name_of_the_official_sdk_is_its_class_and_not_ours(name: str, class_name: str) -> None:
    value = getattr(compat, name)
    assert value.__name__ == class_name and value.__module__.startswith("mcp_products.compat.")


def test_progress_is_the_dependency_of_fastmcp() -> None:
    from mcp_generated import dependencies

    assert compat.Progress is dependencies.Progress


async def test_keywords_of_fastmcp_have_their_meaning() -> None:
    strict = FastMCP("x", strict_input_validation=True, mask_error_details=True, list_page_size=1)
    loose = FastMCP("x", strict_input_validation=False, mask_error_details=False)
    for app in (strict, loose):

        @app.tool
        def half(number: int) -> float:
            if number < 0:
                raise ValueError("a secret")
            return number / 2

        @app.tool
        def other() -> None: ...

    assert (await strict.call_tool("half", {"number": "4"})).is_error
    assert (await loose.call_tool("half", {"number": "4"})).structured_content == {"result": 2.0}
    texts = [(await app.call_tool("half", {"number": -1})).content[0].text for app in (strict, loose)]  # type: ignore[union-attr]
    assert ["secret" in text for text in texts] == [False, True]
    async with connect(strict) as client:
        assert len((await client.list_tools()).tools) == 1


class Verifier:
    """Accepts a token that is the scopes of its user."""

    async def verify(self, token: str) -> Any:
        from mcp_generated.auth import AuthenticatedUser

        return AuthenticatedUser("ann", scopes=frozenset(token.split("-")))


async def only_ann(ctx: Any) -> bool:
    return ctx.token is not None and ctx.token.subject == "ann" and "public" in ctx.component.tags


def protected() -> FastMCP:
    """Return a server whose components have checks of their own."""
    app = FastMCP("protected")

    @app.tool(auth=require_scopes("admin"))
    def secret() -> str:
        return "secret"

    @app.tool(auth=[only_ann], tags={"public"})
    def personal() -> str:
        return "personal"

    @app.tool("hidden", auth=lambda ctx: False)
    def anything() -> str:
        return "hidden"

    @app.tool
    def public() -> str:
        return "public"

    @app.resource("secret://{name}", auth=require_scopes("admin"))
    def template(name: str) -> str:
        return name

    @app.resource("secret-one://x", auth=require_scopes("admin"))
    def resource() -> str:
        return "x"

    @app.prompt(auth=require_scopes("admin"))
    def prompt() -> str:
        return "text"

    return app


async def visible(client: Any) -> list[list[str]]:
    lists = [
        [tool.name for tool in (await client.list_tools()).tools],
        [item.uri for item in (await client.list_resources()).resources],
        [item.uri_template for item in (await client.list_resource_templates()).resource_templates],
        [item.name for item in (await client.list_prompts()).prompts],
    ]
    return lists


@pytest.mark.parametrize("scope, is_admin", [("admin", True), ("read", False)])
async def test_a_component_is_listed_and_served_only_if_its_checks_allow(scope: str, is_admin: bool) -> None:
    from mcp_generated.auth import ResourceServer
    from mcp_generated.http import HTTPOptions

    server = ResourceServer("http://localhost/mcp", ["https://issuer.example"], verifier=Verifier())
    application = protected().asgi(auth=server)
    options = HTTPOptions(client=asking(application), headers={"Authorization": f"Bearer {scope}"})
    async with connect("http://localhost/mcp", http=options) as client:
        tools, resources, templates, prompts = await visible(client)
        assert tools == ["secret", "personal", "public"][not is_admin :]
        assert [len(items) for items in (resources, templates, prompts)] == [is_admin] * 3
        assert (await client.call_tool("public")).structured_content == {"result": "public"}
        requests = [
            client.call_tool("secret"),
            client.read_resource("secret://a"),
            client.read_resource("secret-one://x"),
            client.get_prompt("prompt"),
        ]
        for request in requests:
            if is_admin:
                assert await request
            else:
                with pytest.raises(Exception, match="scope|allowed|403"):
                    await request
        with pytest.raises(RemoteJSONRPCError, match="not allowed"):
            await client.call_tool("hidden")
    await application.close()


async def test_over_stdio_and_in_memory_nothing_is_checked() -> None:
    async with connect(protected()) as client:
        assert (await client.call_tool("secret")).structured_content == {"result": "secret"}


def test_what_is_no_check_is_refused() -> None:
    with pytest.raises((LocalError, TypeError)):
        FastMCP("x").tool(auth=[7])(lambda: None)


async def test_errors_of_resources_and_prompts_show_their_text() -> None:
    app = FastMCP("errors")

    @app.resource("error://x")
    def resource() -> str:
        raise ResourceError("no such file")

    @app.prompt
    def prompt() -> str:
        raise PromptError("no such prompt")

    @app.tool
    def tool() -> str:
        raise ToolError("no such tool")

    async with connect(app) as client:
        with pytest.raises(RemoteJSONRPCError, match="no such file"):
            await client.read_resource("error://x")
        with pytest.raises(RemoteJSONRPCError, match="no such prompt"):
            await client.get_prompt("prompt")
        assert (await client.call_tool("tool")).is_error
