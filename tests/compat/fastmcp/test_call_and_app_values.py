"""Dependencies for the progress of a call, for values of all calls, and for the app."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from support.clients import connect

from mcp_generated import App, Context, LocalError, RequestOptions
from mcp_generated.dependencies import CurrentFastMCP, Progress, Shared


async def test_progress_counts_for_one_call_and_reaches_the_client() -> None:
    app, reports = App("app"), list[Any]()

    @app.tool
    async def work(steps: int, progress: Progress = Progress()) -> list[Any]:
        await progress.set_total(steps)
        await progress.set_message("working")
        for _ in range(steps):
            await progress.increment()
        return [progress.current, progress.total, progress.message]

    options = RequestOptions(on_progress=lambda report: reports.append((report.progress, report.total, report.message)))
    async with connect(app) as client:
        [tool] = await app.list_tools()
        assert list(tool.model_dump()["inputSchema"]["properties"]) == ["steps"]
        for _ in range(2):
            reports.clear()
            result = await client.call_tool("work", {"steps": 2}, options=options)
            assert result.structured_content == {"result": [2, 2, "working"]}
            assert reports == [(1, 2, "working"), (2, 2, "working")]


async def test_progress_of_a_client_that_wants_none_counts_in_silence() -> None:
    app = App("app")

    @app.tool
    async def work(progress: Annotated[Progress, Progress()]) -> list[Any]:
        before = [progress.current, progress.total]
        await progress.increment(0.5)
        return [*before, progress.current]

    assert (await app.call_tool("work")).structured_content == {"result": [None, 1, 0.5]}


@pytest.mark.parametrize("amount", [0, -1])
async def test_progress_only_grows(amount: int) -> None:
    app, errors = App("app"), list[str]()

    @app.tool
    async def work(progress: Progress = Progress()) -> None:
        for change in (progress.increment, progress.set_total):
            try:
                await change(amount)
            except LocalError as error:
                errors.append(str(error))

    await app.call_tool("work")
    assert ["above 0" in error for error in errors] == [True, True]
    with pytest.raises(LocalError, match="default of a tool's parameter"):
        await Progress().increment()


class Pool:
    """What all calls share."""

    opened = 0
    closed = 0

    def __init__(self) -> None:
        type(self).opened += 1


def plain() -> Pool:
    return Pool()


async def coroutine() -> Pool:
    await asyncio.sleep(0)
    return Pool()


def generator() -> Iterator[Pool]:
    yield Pool()
    Pool.closed += 1


async def async_generator() -> AsyncIterator[Pool]:
    yield Pool()
    Pool.closed += 1


@pytest.mark.parametrize(
    "kind, function",
    [
        ("def", plain),
        ("async def", coroutine),
        ("generator", generator),
        ("async generator", async_generator),
        ("context manager generator", asynccontextmanager(async_generator)),
    ],
)
async def test_a_shared_value_is_computed_once_and_cleaned_up_at_the_end(kind: str, function: Any) -> None:
    Pool.opened = Pool.closed = 0
    app = App("app")

    @app.tool
    async def one(pool: Annotated[Pool, Shared(function)]) -> int:
        return id(pool)

    @app.tool
    async def two(pool: Pool = Shared(function)) -> int:
        return id(pool)

    async with connect(app) as client:
        results = await asyncio.gather(*(client.call_tool(name) for name in ("one", "two") * 5))
        assert len({str(result.structured_content) for result in results}) == 1
        assert (Pool.opened, Pool.closed) == (1, 0)
    assert Pool.closed == ("generator" in kind)


async def test_a_shared_value_that_fails_is_computed_again() -> None:
    app, attempts = App("app", tool_errors=(ConnectionError,)), list[int]()

    def connected() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionError("the database does not answer")
        return "connected"

    @app.tool
    def tool(value: str = Shared(connected)) -> str:
        return value

    async with connect(app) as client:
        assert (await client.call_tool("tool")).is_error
        assert (await client.call_tool("tool")).structured_content == {"result": "connected"}


def test_a_shared_function_with_parameters_is_refused() -> None:
    with pytest.raises(LocalError, match=r"the parameter 'user' of the function has no value.*Depends"):
        Shared(lambda user: user)
    with pytest.raises(LocalError, match="pass a function, not its result"):
        Shared(plain())


async def test_the_app_is_a_dependency() -> None:
    app = App("this one")

    @app.tool
    def name(ctx: Context, server: App = CurrentFastMCP()) -> list[Any]:
        return [server.name, server is ctx.app]

    assert (await app.call_tool("name")).structured_content == {"result": ["this one", True]}
