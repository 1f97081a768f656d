"""A rate counts what is done, whatever the way, and for each client: not for a session, which a client could renew."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from support.auth.resource_server import PROTECTED, Authority, endpoint
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, among, since
from support.http.in_process import connecting

from mcp_generated import App, Context, RateLimit
from mcp_generated.middleware import RateLimitingMiddleware, SlidingWindowRateLimitingMiddleware
from mcp_generated.transforms import BM25SearchTransform, PromptsAsTools, ResourcesAsTools
from mcp_products.auth.resource_server.protection import ResourceServer
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.errors import RemoteError, RemoteJSONRPCError
from mcp_runtime.server.limits import ClientBuckets

FEW = RateLimit(per_second=0.001, burst=2)


def example(**settings: Any) -> App:
    """An app whose things can be reached in several ways."""
    app = App("app", **settings)

    @app.resource("note://one")
    def one() -> str:
        return "one"

    @app.prompt
    def ask() -> str:
        return "?"

    @app.tool
    def act() -> str:
        return "done"

    @app.tool
    async def read_it(ctx: Context) -> str:
        return str((await ctx.read_resource("note://one"))[0].content)

    app.add_transform(ResourcesAsTools())
    app.add_transform(PromptsAsTools())
    return app


def connected(rev: Rev, app: App, over: str = "memory") -> Any:
    """A client of a revision."""
    kind = type("Speaking", (rev.package.Client,), {})
    if over == "memory":
        return kind.memory(*server_candidates(app.server, "all"))
    return kind(connecting(app.server, rev.revision))


Ways = list[Callable[[Any], Awaitable[Any]]]

READS: Ways = [
    lambda client: client.read_resource(uri="note://one"),
    lambda client: client.call_tool(name="read_resource", arguments={"uri": "note://one"}),
    lambda client: client.call_tool(name="read_it", arguments={}),
]
PROMPTS: Ways = [
    lambda client: client.get_prompt(name="ask"),
    lambda client: client.call_tool(name="get_prompt", arguments={"name": "ask"}),
]


async def succeeded(request: Awaitable[Any]) -> bool:
    try:
        result = await request
    except RemoteJSONRPCError as error:
        assert "too many" in error.message, error
        return False
    if result.is_error if hasattr(result, "is_error") else False:
        assert "too many" in result.content[0].text, result
        return False
    return True


@among(ALL_REVISIONS)
@pytest.mark.parametrize("limited", ["read_resource", "get_prompt"])
async def test_a_rate_of_a_request_holds_for_each_way_to_the_same_thing(rev: Rev, limited: str) -> None:
    ways = READS if limited == "read_resource" else PROMPTS
    async with connected(rev, example(rate_limits={limited: FEW})) as client:
        outcomes = [await succeeded(way(client)) for way in [*ways, *ways]]
        assert outcomes == [True] * 2 + [False] * (len(ways) * 2 - 2)
        assert await succeeded(client.call_tool(name="act", arguments={})), "another rate"


async def test_what_a_tool_calls_by_another_is_counted_once() -> None:
    app = example(rate_limits={"call_tool": RateLimit(per_second=0.001, burst=4)})
    app.add_transform(BM25SearchTransform())
    async with connected(ALL_REVISIONS[-1], app) as client:
        call = {"name": "call_tool", "arguments": {"name": "act", "arguments": {}}}
        assert [await succeeded(client.call_tool(**call)) for _ in range(5)] == [True] * 4 + [False]


@among(ALL_REVISIONS)
async def test_a_rate_of_subscriptions_holds_for_the_request_of_each_version(rev: Rev) -> None:
    app = example(rate_limits={"subscriptions_listen": FEW})
    outcomes: list[bool] = []
    async with connected(rev, app) as client:
        for _ in range(4):
            try:
                async with client.listen(resource_updated=["note://one"]) as changes:
                    outcomes.append(bool(changes.acknowledged.get("resource_updated")))
            except RemoteError as error:
                assert "too many" in str(error)
                outcomes.append(False)
    assert outcomes == [True] * 2 + [False] * 2


# ---- clients --------------------------------------------------------------------------------------------------------


LIMITS: dict[str, Callable[[], App]] = {
    "rate_limits": lambda: example(rate_limits={"get_prompt": FEW}),
    "middleware": lambda: example(middleware=[RateLimitingMiddleware(0.001, burst_capacity=4)]),
    "window": lambda: example(middleware=[SlidingWindowRateLimitingMiddleware(4, window_minutes=60)]),
}


async def asked(client: Any, number: int = 6) -> int:
    return sum([await succeeded(client.get_prompt(name="ask")) for _ in range(number)])


@among(since("2025-03-26"))
@pytest.mark.parametrize("kind", LIMITS)
async def test_a_new_session_of_an_address_is_no_new_client(rev: Rev, kind: str) -> None:
    app = LIMITS[kind]()
    async with connected(rev, app, "http") as first:
        assert 0 < await asked(first) < 6
        try:
            async with connected(rev, app, "http") as second:
                assert await asked(second) == 0
        except RemoteJSONRPCError as error:  # The handshake is a request as well.
            assert "too many" in error.message


@among(ALL_REVISIONS)
@pytest.mark.parametrize("kind", LIMITS)
async def test_each_connection_without_an_address_is_a_client(rev: Rev, kind: str) -> None:
    app = LIMITS[kind]()
    async with connected(rev, app) as first, connected(rev, app) as second:
        own = await asked(first)
        assert 0 < own < 6 and await asked(second) == own


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


@among(PROTECTED)
@pytest.mark.parametrize("kind", LIMITS)
async def test_each_user_of_an_address_is_a_client(rev: Rev, kind: str, issuer: Authority) -> None:
    def protection(url: str) -> ResourceServer:
        return ResourceServer(url, [issuer.name], scopes=())

    async with endpoint(rev, protection, LIMITS[kind](), real=False) as at:
        counts: list[int] = []
        for user in ("ann", "bob"):
            token = issuer.token(at.url, sub=user)
            at.session = {}
            await at.open(token)
            headers = {"mcp-name": "ask"} if rev.stateless else {}
            answers = [
                await at.post(at.rev.request(1, "prompts/get", {"name": "ask"}), token, **headers) for _ in "123456"
            ]
            counts.append(sum("too many" not in answer.text for answer in answers))
        assert counts[0] == counts[1] and 0 < counts[0] < 6


async def test_all_clients_share_a_limit_if_that_is_wanted() -> None:
    app = example(middleware=[RateLimitingMiddleware(0.001, burst_capacity=4, global_limit=True)])
    rev = HANDSHAKE[-1]
    async with connected(rev, app) as first, connected(rev, app) as second:
        assert await asked(first, 2) == 2
        assert await asked(second) == 0, "two handshakes and two requests"


async def test_log_messages_of_one_client_are_not_taken_from_another() -> None:
    app = App("app")

    @app.tool
    async def talk(ctx: Context) -> str:
        bucket = ctx._log_bucket()
        return f"{id(bucket)} {isinstance(ctx.connection_state.log_rate, ClientBuckets)}"

    rev = ALL_REVISIONS[-1]
    async with connected(rev, app, "http") as first:
        one = (await first.call_tool(name="talk", arguments={})).content[0].text
        assert one.endswith("True"), "clients without sessions have one state, and a bucket each"
        assert one == (await first.call_tool(name="talk", arguments={})).content[0].text
    async with connected(rev, app) as first:
        assert (await first.call_tool(name="talk", arguments={})).content[0].text.endswith("False")
