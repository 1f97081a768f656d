"""A resource is found in every spelling of its URI, and every rule about it holds for every spelling."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.auth.resource_server import PROTECTED, Authority, Endpoint, endpoint
from support.clients import connect
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, among

from mcp_generated import App, Context, Gateway, MultiClient, RemoteJSONRPCError
from mcp_generated.middleware import AccessRequest, AuthMiddleware
from mcp_products.auth.resource_server.protection import ResourceServer
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.endpoint.checks import is_within_resource
from mcp_runtime.http.headers import encode_value

REGISTERED = "note://Été/le/fichier"
SPELLINGS = [
    REGISTERED,
    "NOTE://%c3%89t%C3%A9/le/fichier",
    "note://%C3%89t%C3%A9/le/%66ichier",
    "note://Été/le/./fichier",
    "note://Été/le/fichier#part",
]
TEMPLATE = "note://été/{x}{?q}"
READ = {
    "note://été/a%2Fb?q=1": "a/b 1",
    "note://%C3%A9t%c3%a9/%61?q=1#part": "a 1",
    "NOTE://été/Ab#part": "Ab ",
    "note://%C3%A9T%C3%A9/x?q=#": "x ",
}


def library(**settings: Any) -> App:
    app = App("library", **settings)

    @app.resource(REGISTERED, tags={"files"}, name="file")
    def file() -> str:
        return "of the file"

    @app.resource("NOTE://h/{x}", name="other")
    def other(x: str) -> str:
        return x

    @app.resource(TEMPLATE, name="template")
    def template(x: str, q: str = "") -> str:
        return f"{x} {q}"

    @app.tool
    async def change(ctx: Context) -> str:
        await ctx.notify_resource_updated(REGISTERED)
        return "changed"

    return app


def mounted(prefix: str, **settings: Any) -> App:
    outer = App("outer", **settings)
    outer.mount(library(), prefix)
    return outer


def client_of(rev: Rev, app: Any, **settings: Any) -> Any:
    return rev.package.Client.memory(*server_candidates(app.server, "all"), **settings)


async def text(client: Any, uri: str) -> str:
    contents = (await client.read_resource(uri=uri)).contents
    return str(contents[0].text)


@among(ALL_REVISIONS)
async def test_a_resource_is_read_in_every_spelling(rev: Rev) -> None:
    async with client_of(rev, library()) as client:
        for uri in SPELLINGS:
            assert await text(client, uri) == "of the file", uri
        for uri, expected in READ.items():
            assert await text(client, uri) == expected, uri
        for uri in ("note://Été/le%2Ffichier/x/y", "note://Été/le/Fichier/y", "note://h/x?q=1"):
            with pytest.raises(RemoteJSONRPCError, match="resource not found"):
                await text(client, uri)


@pytest.mark.parametrize("prefix", ["pre", "Préfixe"])
async def test_prefixes_are_compared_like_the_rest(prefix: str) -> None:
    spelled_otherwise = {"pre": ["PRE", "p%72e"], "Préfixe": ["pr%C3%A9fixe", "Pr%c3%a9fixe"]}[prefix]
    for app in (mounted(prefix), App.proxy(mounted(prefix))):
        async with connect(app) as client:
            for name in (prefix, *spelled_otherwise):
                for uri in SPELLINGS[:4]:
                    inside = uri.replace("://", f"://{name}/", 1).replace("/./", "/")
                    assert await text(client, inside) == "of the file", inside
            with pytest.raises(RemoteJSONRPCError, match="resource not found"):
                await text(client, f"note://{prefix}%2FÉté/le/fichier")


async def test_the_contents_have_the_uri_that_the_client_has_asked_for() -> None:
    seen: list[str] = []
    app = mounted("pre")

    @app.middleware
    async def note(name: str, ctx: Any, params: Any, call_next: Any) -> Any:
        if name == "read_resource":
            seen.append(params.uri)
        return await call_next(ctx, params)

    async with connect(app) as client:
        for uri in ("note://pre/Été/le/fichier", "NOTE://PRE/%C3%89t%C3%A9/le/fichier"):
            assert (await client.read_resource(uri)).contents[0].uri == uri
    assert seen == ["note://pre/Été/le/fichier"] * 2, "middleware sees the URI of the app"


@among(ALL_REVISIONS)
@pytest.mark.parametrize("uri", SPELLINGS)
async def test_a_subscription_holds_for_every_spelling(rev: Rev, uri: str) -> None:
    apps = [library(), App.proxy(library())]
    for app in apps:
        async with client_of(rev, app) as client, client.listen(resource_updated=[uri]) as changes:
            await client.call_tool(name="change", arguments={})
            async with asyncio.timeout(20):
                changed = (await anext(changes)).params.uri
            assert changed in (uri, REGISTERED)


@among(HANDSHAKE)
async def test_ending_one_of_two_subscriptions_leaves_the_other(rev: Rev) -> None:
    async with client_of(rev, library()) as client, client.listen(resource_updated=[SPELLINGS[1]]) as changes:
        async with client.listen(resource_updated=[SPELLINGS[2]]):
            pass
        await client.call_tool(name="change", arguments={})
        async with asyncio.timeout(20):
            assert (await anext(changes)).params.uri == REGISTERED
        await client.subscribe(uri=SPELLINGS[3])
        await client.unsubscribe(uri=SPELLINGS[0])


@pytest.mark.parametrize("rule", [REGISTERED, SPELLINGS[1], "file"])
@pytest.mark.parametrize("uri", SPELLINGS)
async def test_what_is_disabled_is_disabled_in_every_spelling(rule: str, uri: str) -> None:
    app, behind, proxied = library(), mounted(""), App.proxy(library())
    for each in (app, behind, proxied):
        each.disable(names={rule})
        async with connect(each) as client:
            assert REGISTERED not in [item.uri async for item in client.iter_resources()]
            with pytest.raises(RemoteJSONRPCError, match="resource not found"):
                await text(client, uri)
            assert await text(client, "note://h/x") == "x"


async def test_a_rule_of_a_session_holds_for_every_spelling() -> None:
    app = library()

    @app.tool
    async def hide(ctx: Context) -> str:
        await ctx.disable_components(names={"NOTE://%C3%89t%C3%A9/le/fichier"})
        return "hidden"

    async with connect(app) as client:
        await client.call_tool("hide")
        for uri in SPELLINGS:
            with pytest.raises(RemoteJSONRPCError, match="resource not found"):
                await text(client, uri)


def protection(issuer: Authority) -> Any:
    return lambda url: ResourceServer(url, [issuer.name], scopes=(), scopes_supported=["read"])


@pytest.mark.long
@pytest.mark.parametrize("locked", [False, True])
async def test_a_gateway_finds_the_server_and_its_rules_hold(
    locked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in [*sys.path, str(Path(__file__).parent)] if path))
    command = ["-c", "import test_spelled_uris; test_spelled_uris.library().run()"]
    server = {"command": sys.executable, "args": command, "env": {"PYTHONPATH": "${PYTHONPATH}"}}
    settings: dict[str, Any] = {"upstreams": {"lib": server, "closed": {**server, "resources": False}}}
    if locked:
        settings["gateway"] = {"lock": str(tmp_path / "lock.json")}
        await Gateway.write_lock(settings)
    async with connect(Gateway(settings).app) as client:
        for name in ("lib", "LIB", "l%69b"):
            for uri in SPELLINGS:
                assert await text(client, uri.replace("://", f"://{name}/", 1)) == "of the file", (name, uri)
            assert await text(client, f"NOTE://{name}/%C3%A9t%c3%a9/a%2Fb") == "a/b "
        for name in ("closed", "CLOSED", "clos%65d"):
            with pytest.raises(RemoteJSONRPCError, match="resource not found"):
                await text(client, REGISTERED.replace("://", f"://{name}/", 1))


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


async def read_over(at: Endpoint, token: str, uri: str) -> str:
    headers = {"mcp-name": encode_value(uri)} if at.rev.stateless else {}
    answer = await at.post(at.rev.request(1, "resources/read", {"uri": uri}), token, **headers)
    return str(answer.text)


@among(PROTECTED)
async def test_a_check_of_access_gets_the_uri_of_the_app(rev: Rev, issuer: Authority) -> None:
    names: list[str] = []

    def check(request: AccessRequest) -> bool:
        names.append(request.name)
        return request.name not in (REGISTERED, "note://pre/Été/le/fichier")

    middleware = [AuthMiddleware(check)]
    for app, before in ((library(middleware=middleware), ""), (mounted("pre", middleware=middleware), "pre/")):
        async with endpoint(rev, protection(issuer), app, real=False) as at:
            token = issuer.token(at.url, scope="read")
            await at.open(token)
            for uri in SPELLINGS:
                answer = await read_over(at, token, uri.replace("://", f"://{before}", 1))
                assert "of the file" not in answer and "not allowed" in answer, uri
            assert '"x"' in await read_over(at, token, f"note://{before}h/x")


@pytest.mark.parametrize("uri", SPELLINGS)
def test_a_change_of_a_resource_is_one_in_every_spelling_and_of_what_is_below(uri: str) -> None:
    assert is_within_resource(uri, REGISTERED) and is_within_resource(REGISTERED, uri)
    assert is_within_resource(f"{SPELLINGS[2]}/below", uri) and not is_within_resource(uri, f"{SPELLINGS[2]}/below")
    assert not is_within_resource("note://Été/le/fichiers", uri)


async def test_other_clients_and_lists_find_spellings_too() -> None:
    async with MultiClient({"Bücher": library()}) as servers:
        (uri,) = [item.uri for item in await servers.list_resources()]
        for spelling in (uri, uri.replace("note", "NOTE"), uri.replace("%C3", "%c3"), uri.replace("B%C3%BC", "bü")):
            content: Any = (await servers.read_resource(spelling)).contents[0]
            assert content.text == "of the file", spelling
    async with connect(library()) as client:
        result: Any = await client.get_resource("NOTE://%C3%89t%C3%A9/le/fichier")
        assert result.contents[0].text == "of the file"
    app = library()
    app.remove_resource(SPELLINGS[1])
    assert [item.uri for item in await app.list_resources()] == []


async def test_a_resource_with_a_fragment_of_its_own_is_apart() -> None:
    app = App("parts")
    for uri in ("a://x/doc", "a://x/doc#one", "a://x/doc#two"):
        app.add_resource(uri, lambda uri=uri: uri, name=uri[-3:])
    app.disable(names={"a://x/doc#two"})
    async with connect(app) as client:
        for uri, found in {"a://x/doc#one": "one", "a://x/doc#other": "a://x/doc", "a://x/doc": "a://x/doc"}.items():
            assert (await text(client, uri)).endswith(found)
        with pytest.raises(RemoteJSONRPCError):
            await text(client, "a://x/doc#two")
