"""What FastMCP's documentation prints about providers, transforms, namespaces, visibility and views, with `compat`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect
from support.http.in_process import asking

import mcp_generated.compat as compat
from mcp_generated import LocalError, RemoteJSONRPCError
from mcp_generated.compat import (
    AppConfig,
    Client,
    FastMCP,
    FastMCPProvider,
    LocalProvider,
    Namespace,
    ResourceCSP,
    ResourcesAsTools,
    SkillsDirectoryProvider,
    StaticTokenVerifier,
    TextResource,
    VersionFilter,
    Visibility,
)


async def tools(app: Any) -> list[str]:
    return [tool.name for tool in await app.list_tools()]


def greeter(name: str = "greeter", **settings: Any) -> FastMCP:
    app = FastMCP(name, **settings)

    @app.tool
    def greet(person: str) -> str:
        return f"Hello {person}"

    @app.resource("data://note")
    def note() -> str:
        return "a note"

    @app.prompt
    def plan() -> str:
        return "Plan."

    return app


async def test_several_servers_share_the_tools_of_a_provider() -> None:
    components = LocalProvider()

    @components.tool(version="1.0", name="add")
    def add(x: int, y: int) -> int:
        return x + y

    @components.tool(version="2.0", name="add")
    def add_more(x: int, y: int, z: int = 0) -> int:
        return x + y + z

    @components.resource("data://version")
    def version() -> str:
        return "1"

    first, second = FastMCP("first", providers=[components]), FastMCP("second", providers=[components])
    first.add_transform(VersionFilter(version_lt="2.0"))
    components.add_tool(lambda: "later", "later", version="1.5")
    for app, expected in ((first, {"x", "y"}), (second, {"x", "y", "z"})):
        listed = await app.list_tools()
        assert set(listed[0].input_schema.properties or {}) == expected
        assert [tool.name for tool in listed] == ["add", "later"]
    async with connect(first) as client:
        assert (await client.read_resource("data://version")).contents[0].text == "1"
        with pytest.raises(AttributeError, match="LocalProvider has no 'run'"):
            components.run()


async def test_names_get_a_prefix_by_mount_by_a_provider_and_by_a_transform() -> None:
    mounted, provided, renamed = FastMCP("a"), FastMCP("b"), greeter("c", transforms=[Namespace("sub")])
    mounted.mount(server=greeter(), namespace="sub")
    provider = FastMCPProvider(greeter())
    provider.add_transform(Namespace("sub"))
    provided.add_provider(provider)
    for app in (mounted, provided, renamed):
        async with connect(app) as client:
            assert await tools(app) == ["sub_greet"]
            assert [str(item.uri) for item in (await client.list_resources()).resources] == ["data://sub/note"]
            assert [item.name for item in (await client.list_prompts()).prompts] == ["sub_plan"]
            assert (await client.call_tool("sub_greet", {"person": "Ann"})).content[0].text == "Hello Ann"
            content = (await client.read_resource("data://sub/note")).contents[0]
            assert (str(content.uri), content.text) == ("data://sub/note", "a note")
            assert (await client.get_prompt("sub_plan")).messages[0].content.text == "Plan."
            assert (await client.call_tool("greet")).content[0].text == "Unknown tool: greet"
            for request in (client.read_resource("data://note"), client.get_prompt("plan")):
                with pytest.raises(RemoteJSONRPCError, match="Unknown"):
                    await request
    with pytest.raises(TypeError, match="write namespace="):
        mounted.mount(greeter(), "x", namespace="y")
    with pytest.raises(TypeError, match="app and server, which are the same"):
        mounted.mount(greeter(), server=greeter())


async def test_components_are_disabled_by_keys_and_by_a_transform() -> None:
    for change in ("keys", "transform"):
        app = greeter()
        app.add_tool(lambda: "x", "other")
        if change == "keys":
            app.disable(keys={"tool:greet", "resource:data://note"})
        else:
            app.add_transform(Visibility(False, names={"greet", "data://note"}))
        async with connect(app) as client:
            assert await tools(app) == ["other"] and not (await client.list_resources()).resources
            assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["plan"]
    app = greeter()
    app.add_tool(lambda: "x", "other")
    app.enable(keys={"tool:greet", "prompt:plan"}, only=True)
    assert await tools(app) == ["greet"]
    for keys in ({"greet"}, {"tools:greet"}, {"tool:"}):
        with pytest.raises(LocalError, match="disable\\(\\): the key .* write 'tool:name'"):
            app.disable(keys=keys)
    with pytest.raises(TypeError, match=r"disable\(\): keys='tool:greet'"):
        app.disable(keys="tool:greet")


async def test_a_client_is_created_from_what_it_connects_to() -> None:
    async with Client(greeter()) as client:
        assert (await client.call_tool("greet", {"person": "Ann"})).content[0].text == "Hello Ann"
    assert isinstance(Client("http://localhost:1/mcp"), Client)
    with pytest.raises(LocalError, match=r"there is no file 'server\.py': pass the path of a server"):
        Client("server.py")

    class Own(Client):
        """A subclass."""

    async with Own(greeter()) as own:
        assert isinstance(own, Own) and (await own.list_tools()).tools


async def test_views_stand_in_the_metadata() -> None:
    app = FastMCP("views")

    @app.tool(app=AppConfig(resource_uri="ui://view", visibility=["app"]), meta={"own": 1})
    def chart() -> str:
        return "chart"

    @app.resource("ui://view", app=AppConfig(csp=ResourceCSP(resource_domains=["https://x.example"])))
    def view() -> str:
        return "<html>"

    [tool] = await app.list_tools()
    assert tool.meta == {"own": 1, "ui": {"resourceUri": "ui://view", "visibility": ["app"]}}
    async with connect(app) as client:
        [resource] = (await client.list_resources()).resources
    assert resource.meta == {"ui": {"csp": {"resourceDomains": ["https://x.example"]}}}
    with pytest.raises(LocalError, match=r"resource\(\): resource_uri and visibility"):
        app.resource("ui://other", app=AppConfig(resource_uri="ui://view"))
    with pytest.raises(LocalError, match=r"tool\(\): app must be AppConfig"):
        app.tool(app="ui://view")


async def test_resources_have_tags() -> None:
    app = FastMCP("tags")
    app.add_resource(TextResource(uri="data://a", text="a", tags={"old"}))
    app.add_resource(TextResource(uri="data://b", text="b"))
    app.disable(tags={"old"})
    async with connect(app) as client:
        assert [str(item.uri) for item in (await client.list_resources()).resources] == ["data://b"]


def test_a_transform_of_tools_belongs_to_its_app() -> None:
    app = greeter()
    app.add_transform(ResourcesAsTools(app))
    with pytest.raises(LocalError, match=r"created for another app: write ResourcesAsTools\(\)"):
        app.add_transform(ResourcesAsTools(greeter()))


async def test_skills_come_from_folders_the_first_of_which_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    skill = tmp_path / "one" / "reading"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: reading\ndescription: Reads.\n---\nRead.\n")
    app = FastMCP("skills", providers=[SkillsDirectoryProvider(roots=[tmp_path / "one", tmp_path / "missing"])])
    assert "there is no folder" in caplog.text and "missing" in caplog.text
    async with connect(app) as client:
        result = await client.read_resource("skill://reading/SKILL.md")
    assert "Read." in result.contents[0].text


async def test_static_tokens_are_verified() -> None:
    verifier = StaticTokenVerifier({"good": {"client_id": "cli", "sub": "ann", "scopes": ["read"]}}, ["read"])
    token = await verifier.verify_token("good")
    assert token is not None and (token.client_id, token.subject, token.scopes) == ("cli", "ann", ["read"])
    assert await verifier.verify_token("other") is None
    assert await StaticTokenVerifier({"t": {"client_id": "c"}}, ["read"]).verify_token("t") is None
    with pytest.raises(LocalError, match="needs a client_id"):
        StaticTokenVerifier({"secret-token": {}})
    with pytest.raises(LocalError, match=r"auth=StaticTokenVerifier.*write token_verifier="):
        FastMCP("x", auth=verifier)


@pytest.mark.parametrize("protection", [True, None, False])
async def test_hosts_and_origins_have_the_names_of_fastmcp(protection: bool | None) -> None:
    settings: dict[str, Any] = {"allowed_hosts": ["mcp.example"], "allowed_origins": ["https://app.example"]}
    web = greeter().http_app(host_origin_protection=protection, **settings)
    message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}}
    async with asking(web) as http:
        statuses = [
            (await http.post("http://localhost/mcp", json=message, headers={"host": host})).status_code
            for host in ("mcp.example", "evil.example")
        ]
    assert [status == 421 for status in statuses] == [False, protection is not False]


def test_a_server_is_its_own_local_provider() -> None:
    app = greeter()
    app.local_provider.remove_tool("greet")
    with pytest.raises(LocalError, match="no 'greet'"):
        app.remove_tool("greet")


def test_spans_need_open_telemetry_or_get_a_tracer() -> None:
    if find_spec("opentelemetry") is None:
        with pytest.raises(LocalError, match="pip install opentelemetry-api"):
            compat.get_tracer()
        return
    with compat.get_tracer().start_as_current_span("step") as span:
        assert span.get_span_context() is not None
