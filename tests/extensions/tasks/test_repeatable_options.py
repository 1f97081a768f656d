"""Repeatable tasks are refused where they are written, if they cannot run there."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from mcp_generated import App, LocalError, TaskOptions, asgi_app, run
from mcp_generated.extensions import tasks
from mcp_generated.v2026_07_28 import Client
from mcp_products.extensions.tasks import store as task_options


@pytest.fixture(autouse=True)
def _docket(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused does not depend on whether docket is installed here."""
    monkeypatch.setattr(task_options, "find_spec", lambda name: importlib.util.find_spec("json"))


def make_app() -> App:
    app = App("jobs")

    @app.tool(task=TaskOptions(repeatable=True, poll_interval=0.01))
    def add(a: int, b: int) -> int:
        return a + b

    return app


@pytest.mark.parametrize(
    "options,written",
    [
        ({"retries": 3}, "write TaskOptions(repeatable=True, retries=3)"),
        ({"repeatable": True, "immediately": False}, "leave out immediately=False"),
        ({"repeatable": True, "retries": -1}, "retries must be how often, such as 3"),
        ({"repeatable": True, "retries": True}, "retries must be how often, such as 3"),
        ({"repeatable": 1}, "repeatable must be True or False"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], written: str) -> None:
    with pytest.raises(LocalError) as caught:
        TaskOptions(**options)
    assert written in str(caught.value)


def test_without_docket_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_options, "find_spec", lambda name: None)
    with pytest.raises(LocalError, match=r"pip install 'mcp-generated\[docket\]'"):
        TaskOptions(repeatable=True)


@pytest.mark.parametrize("store", [{}, {"store": "memory"}, {"store": "sqlite:///jobs.db"}, {"workers": 2}])
def test_a_server_without_redis_is_refused(store: dict[str, Any]) -> None:
    with pytest.raises(LocalError, match=r'run\(\): a repeatable task needs .*write run\("http", store="redis://'):
        make_app().run("http", **store)
    with pytest.raises(LocalError, match=r'run\(\): a repeatable task needs .*write run\("http", store="redis://'):
        run(make_app(), transport="http", **store)


def test_an_application_without_redis_is_refused() -> None:
    with pytest.raises(LocalError, match=r'asgi\(\): .*write asgi\(…, store="redis://localhost"\)'):
        make_app().asgi()
    with pytest.raises(LocalError, match=r'asgi_app\(\): .*write asgi_app\(…, store="redis://localhost"\)'):
        asgi_app(make_app())


async def test_a_server_over_stdio_is_refused() -> None:
    for serve in (make_app().run_async, make_app().run_stdio_async):
        with pytest.raises(LocalError, match=r'stdio has not: write run_async\("http", store="redis://localhost"\)'):
            await serve()


def test_a_store_of_tasks_besides_is_refused() -> None:
    app = make_app()
    app._tasks = tasks_store()
    with pytest.raises(LocalError, match="leave out tasks="):
        app.asgi(store="redis://localhost")


def tasks_store() -> Any:
    from mcp_generated.tasks import InMemoryTaskStore

    return InMemoryTaskStore()


def test_a_mounted_app_is_refused_as_well() -> None:
    outer = App("outer")
    outer.mount(make_app(), "inner")
    with pytest.raises(LocalError, match="a repeatable task needs"):
        outer.asgi(store="sqlite:///jobs.db")


async def test_in_memory_a_repeatable_task_is_one_of_this_process() -> None:
    """So that an app can be tested without Redis."""
    async with Client.memory(make_app(), extensions=[tasks]) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2}, timeout=10)).structured_content == {"result": 3}
