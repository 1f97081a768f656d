"""Ready middleware: errors, retries, logs, times, limits and caching."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from support.clients import connect
from support.endpoints import ALL_REVISIONS, Rev, among

from mcp_generated import App, Context, LocalError, Middleware, MiddlewareContext, ToolError
from mcp_generated.middleware import (
    AuthMiddleware,
    DetailedTimingMiddleware,
    ErrorHandlingMiddleware,
    LoggingMiddleware,
    RateLimitingMiddleware,
    ResponseCachingMiddleware,
    ResponseLimitingMiddleware,
    RetryMiddleware,
    SlidingWindowRateLimitingMiddleware,
    StructuredLoggingMiddleware,
    TimingMiddleware,
    require_scopes,
)
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.errors import RemoteJSONRPCError


def failing(*middleware: Any, errors: list[Exception], **keywords: Any) -> App:
    """An app whose tool raises the exceptions, one a call, and then succeeds."""
    app = App("failing", middleware=middleware, **keywords)

    @app.tool()
    def work() -> str:
        if errors:
            raise errors.pop(0)
        return "done"

    @app.resource("work://x")
    def read() -> str:
        return work()

    return app


def example(*middleware: Any, **keywords: Any) -> App:
    """An app with a tool, a resource, a template and a prompt."""
    app = App("app", middleware=middleware, **keywords)

    @app.tool(tags={"read"})
    def add(a: int, b: int) -> str:
        return str(a + b)

    @app.tool(tags={"admin"})
    def erase() -> str:
        return "erased"

    @app.resource("notes://today")
    def today() -> str:
        return "a note"

    @app.resource("notes://{day}/x", tags={"admin"})
    def day(day: str) -> str:
        return day

    @app.prompt(tags={"admin"})
    def greet(name: str) -> str:
        return f"Greet {name}"

    @app.completion()
    def suggest(ref: Any, argument: Any) -> list[str]:
        return ["Ann"]

    return app


async def test_errors_are_logged_counted_and_turned_into_codes(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []
    handling = ErrorHandlingMiddleware(error_callback=lambda error, context: seen.append((error, context.name)))
    app = failing(handling, errors=[ValueError("too big"), FileNotFoundError("x"), OSError("disk"), ToolError("text")])
    for code, text in ((-32602, "invalid params: too big"), (-32602, "not found: x"), (-32603, "internal error: disk")):
        with pytest.raises(RemoteJSONRPCError, match=text) as caught:
            await app.call_tool("work")
        assert caught.value.code == code
    assert (await app.call_tool("work")).is_error
    assert [name for _, name in seen] == ["call_tool"] * 4
    assert handling.get_error_stats()["ValueError:tools/call"] == 1
    assert "tools/call failed: ValueError: too big" in caplog.text


async def test_an_error_callback_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def callback(error: Exception, context: MiddlewareContext) -> None:
        raise RuntimeError("the callback")

    handling = ErrorHandlingMiddleware(error_callback=callback, transform_errors=False)
    app = failing(handling, errors=[ValueError("too big")], tool_errors=(ValueError,))
    assert (await app.call_tool("work")).content[0].text == "too big"  # type: ignore[union-attr]
    assert "the error callback of the middleware failed" in caplog.text


@among(ALL_REVISIONS)
@pytest.mark.parametrize("transform_errors", [True, False])
async def test_what_the_client_cannot_do_has_the_same_answer_with_error_handling(
    rev: Rev, transform_errors: bool
) -> None:
    answers: list[Any] = []
    for middleware in ([], [ErrorHandlingMiddleware(transform_errors=transform_errors)]):
        app = App("app", middleware=middleware)

        @app.tool
        async def tool(ctx: Context, method: str) -> str:
            await getattr(ctx, method)("Who?", **({"schema": str} if method == "elicit" else {}))
            return "done"

        async with rev.package.Client.memory(*server_candidates(app.server, "all")) as client:
            for method in ("elicit", "sample"):
                try:
                    result = await client.call_tool("tool", {"method": method})
                    answers.append((method, result.is_error, result.content[0].text))
                except RemoteJSONRPCError as error:
                    answers.append((method, error.code, str(error), error.data))
    assert answers[:2] == answers[2:] and all(answer[1] for answer in answers)


async def test_requests_are_tried_again() -> None:
    wrapped = OSError("wrapped")
    wrapped.__cause__ = ConnectionError("lost")
    errors: list[Exception] = [ConnectionError("lost"), TimeoutError("late"), wrapped]
    app = failing(RetryMiddleware(base_delay=0), errors=errors)
    assert (await app.call_tool("work")).content[0].text == "done"  # type: ignore[union-attr]
    errors += [ConnectionError("lost")] * 2
    assert "done" in str((await app.read_resource("work://x")).contents)
    errors += [ConnectionError("lost")] * 4
    assert (await app.call_tool("work")).is_error and not errors
    errors += [ValueError("wrong"), ValueError("not reached")]
    assert (await app.call_tool("work")).is_error and len(errors) == 1
    with pytest.raises(LocalError, match="must be 0 or more"):
        RetryMiddleware(max_retries=-1)


# ---- logs and times --------------------------------------------------------------------------------------------------


async def test_messages_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    app = failing(
        LoggingMiddleware(include_payloads=True, include_payload_length=True, max_payload_length=9),
        errors=[OSError("disk\nfull")],
    )
    await app.call_tool("work")
    await app.call_tool("work")
    lines = [
        record.message for record in caplog.records if "middleware" in record.name and "tools/call" in record.message
    ]
    assert lines[0].startswith("event=request_start method=tools/call source=client payload_length=")
    assert lines[0].endswith("...") and len(lines) == 4
    assert "event=request_error" in lines[1] and '"OSError: disk\\nfull"' in lines[1] and "\n" not in lines[1]
    assert "event=request_success" in lines[3] and "duration_ms=" in lines[3]


async def test_messages_are_logged_as_json(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await example(StructuredLoggingMiddleware(methods=["tools/call"])).call_tool("erase")
    records = [json.loads(record.message) for record in caplog.records if "middleware" in record.name]
    assert [record["event"] for record in records] == ["request_start", "request_success"]
    assert records[0] == {"event": "request_start", "method": "tools/call", "source": "client"}


async def test_times_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    app = failing(TimingMiddleware(), DetailedTimingMiddleware(), errors=[ValueError("x")])
    await app.call_tool("work")
    await app.read_resource("work://x")
    assert "request tools/call failed after" in caplog.text
    assert "request tools/call 'work' failed after" in caplog.text
    assert "request resources/read 'work://x' completed in" in caplog.text


# ---- limits ----------------------------------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_the_rate_of_requests_is_limited() -> None:
    clock = Clock()
    bucket = RateLimitingMiddleware(1, 4, clock=clock)
    async with example(bucket).client_class().memory(example(bucket).server) as client:
        clock.now = 100
        for _ in range(4):
            await client.call_tool(name="erase")  # type: ignore[attr-defined]
        with pytest.raises(RemoteJSONRPCError, match="too many 'tools/call' requests") as caught:
            await client.call_tool(name="erase")  # type: ignore[attr-defined]
        assert caught.value.data == {"retryAfter": 1.0}
        clock.now = 101
        await client.call_tool(name="erase")  # type: ignore[attr-defined]


async def test_a_window_of_requests_is_limited_for_each_client() -> None:
    clock = Clock()
    clients = ["a"]

    async def client_id(context: MiddlewareContext) -> str:
        return clients[0]

    window = SlidingWindowRateLimitingMiddleware(2, 1, client_id, clock)
    async with example().client_class().memory(example(window).server) as client:
        clock.now = 100
        for clients[0] in ("a", "b"):
            for _ in range(2):
                await client.call_tool(name="erase")  # type: ignore[attr-defined]
            with pytest.raises(RemoteJSONRPCError, match="too many"):
                await client.call_tool(name="erase")  # type: ignore[attr-defined]
        clock.now = 160
        await client.call_tool(name="erase")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "make",
    [
        lambda: RateLimitingMiddleware(0),
        lambda: RateLimitingMiddleware(1, 0),
        lambda: SlidingWindowRateLimitingMiddleware(0),
        lambda: SlidingWindowRateLimitingMiddleware(1, 0),
        lambda: ResponseLimitingMiddleware(max_size=10),
        lambda: ResponseCachingMiddleware(call_tool_settings={"ttl": 0}),
        lambda: ResponseCachingMiddleware(list_tools_settings={"included_tools": ["x"]}),
        lambda: AuthMiddleware(["admin"]),  # type: ignore[list-item]
        lambda: require_scopes(),
    ],
)
def test_settings_that_cannot_work_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(LocalError) as caught:
        make()
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("text", ["x" * 5000, "é" * 5000, '"' * 5000, "\N{GRINNING FACE}" * 5000])
async def test_large_results_are_truncated(text: str) -> None:
    app = App("app", middleware=[ResponseLimitingMiddleware(max_size=1000, tools=["large"])])

    @app.tool()
    def large(size: int) -> dict[str, str]:
        return {"text": text[:size]}

    @app.tool()
    def other() -> str:
        return text

    result = await app.call_tool("large", {"size": 5000})
    [block] = result.content
    assert block.text.endswith("[Response truncated due to size limit]")  # type: ignore[union-attr]
    assert 700 < len(block.model_dump_json().encode()) <= 1000 and "structuredContent" not in result.model_dump()
    assert (await app.call_tool("large", {"size": 10})).structured_content == {"text": text[:10]}
    assert text in str((await app.call_tool("other")).content)
    large_tool, other_tool = await app.list_tools()
    assert large_tool.output_schema is None and other_tool.output_schema is not None


# ---- caching ---------------------------------------------------------------------------------------------------------


async def test_each_app_has_cached_results_of_its_own_though_they_share_the_middleware() -> None:
    cache = ResponseCachingMiddleware()

    def app_of(name: str) -> App:
        app = App(name, middleware=[cache])
        app.add_tool(lambda: f"of {name}", name="whose")
        app.add_resource("note://whose", lambda: f"of {name}", name="whose")
        return app

    apps = [app_of("one"), app_of("two")]
    for app in (*apps, *apps):
        async with connect(app) as client:
            called: Any = await client.call_tool("whose", {})
            read: Any = await client.read_resource("note://whose")
            assert called.content[0].text == read.contents[0].text == f"of {app.name}"
    assert (cache.hits, cache.misses) == (4, 4)


async def test_results_are_cached_by_params_for_a_time() -> None:
    clock, calls = Clock(), list[int]()
    clock.now = 1
    cache = ResponseCachingMiddleware(call_tool_settings={"excluded_tools": ["other"], "ttl": 10}, clock=clock)
    app = App("app", middleware=[cache])

    def count(x: int = 0) -> str:
        calls.append(x)
        if x == 3:
            raise ToolError("no")
        return str(len(calls))

    app.add_tool(count, "count")
    app.add_tool(count, "other")

    async def text(name: str, x: int) -> str:
        return (await app.call_tool(name, {"x": x})).content[0].text  # type: ignore[union-attr]

    assert [await text("count", 1), await text("count", 1), await text("count", 2)] == ["1", "1", "2"]
    assert (cache.hits, cache.misses >= 2) == (cache.hits, True) and len(calls) == 2
    assert [await text("other", 1), await text("other", 1)] == ["3", "4"]
    assert [await text("count", 3), await text("count", 3)] == ["no", "no"] and len(calls) == 6
    clock.now = 12
    assert await text("count", 1) == "7"
    assert [tool.name for tool in await app.list_tools()] == ["count", "other"]
    app.remove_tool("other")
    assert [tool.name for tool in await app.list_tools()] == ["count"]
    app.disable(names={"count"})
    assert await app.list_tools() == []


async def test_a_cached_result_is_not_what_a_later_middleware_changes() -> None:
    class Shout(Middleware):
        async def on_call_tool(self, context: MiddlewareContext, call_next: Any) -> Any:
            result = await call_next(context)
            result.content[0].text += "!"
            return result

    app = example(Shout(), ResponseCachingMiddleware())
    for _ in range(2):
        assert (await app.call_tool("erase")).content[0].text == "erased!"  # type: ignore[union-attr]
