"""`SyncClient`: what `Client` has, without an event loop, and inside of one."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among

from mcp_generated import App, Client, ConnectionClosedError, Context, LocalError, SyncClient, ToolResultError


def served() -> App:
    app = App("served", "How to use it.")

    @app.tool()
    async def add(ctx: Context, a: int, b: int) -> int:
        """Add two numbers."""
        await ctx.info("adds")
        await ctx.progress(1, 1)
        return a + b

    @app.tool()
    def broken() -> int:
        """Fail."""
        raise ValueError("secret")

    @app.tool()
    async def joke(ctx: Context) -> str:
        """Ask the model."""
        return (await ctx.sample("Tell a joke.")).text or ""

    return app


def use(rev: Rev) -> None:
    heard: list[Any] = []
    settings: dict[str, Any] = {"on_log": lambda message: heard.append(message.data), "log_level": "info"}
    with SyncClient(
        served(), revisions=rev.id, sampling=lambda: "A joke.", on_progress=heard.append, **settings
    ) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}, output=int).data == 3
        assert client.call_tool("joke").text == "A joke."
        assert [tool.name for tool in client.list_tools()] == ["add", "broken", "joke"]
        assert [tool.name for tool in client.iter_tools()] == ["add", "broken", "joke"]
        assert client.list_prompts() == []
        assert client.server.instructions == "How to use it."
        client.ping()
        client.set_log_level("debug")
        misspelt: Any = client
        with pytest.raises(ToolResultError):
            client.call_tool("broken")
        with pytest.raises(AttributeError, match="did you mean 'call_tool'"):
            misspelt.call_tol
    assert "adds" in heard
    assert len(heard) == 2


@among(ALL_REVISIONS)
def test_a_client_without_a_loop_has_results_and_functions(rev: Rev) -> None:
    use(rev)


async def test_a_client_works_inside_of_a_running_loop() -> None:
    use(ALL_REVISIONS[-1])


def test_a_client_is_entered_again_and_from_several_threads() -> None:
    closed: list[object] = []
    client = SyncClient(served(), on_close=closed.append)
    with client:
        with client:
            client.ping()
        client.ping()
        assert closed == []
    assert closed == [None]

    together, values = threading.Barrier(3), list[Any]()

    def in_thread() -> None:
        with client:
            together.wait(10)
            values.append(client.call_tool("add", {"a": 1, "b": 2}).data)

    threads = [threading.Thread(target=in_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == [3, 3, 3]
    assert closed == [None, None]
    with client:
        client.close()
        with pytest.raises(ConnectionClosedError, match="use `with`"):
            client.ping()


def test_both_clients_take_the_same_and_have_the_same() -> None:
    parameters = [inspect.signature(kind.__init__).parameters for kind in (Client, SyncClient)]
    assert [*parameters[0].items()] == [*parameters[1].items()]
    public = [{name for name in dir(kind) if not name.startswith("_")} for kind in (Client, SyncClient)]
    own = {"package", "generated_class", "multi_class"}
    assert (public[0] - own) | {"generated"} == public[1]  # An attribute of each client, and a property here.
    for name in public[1]:
        ours, theirs = getattr(Client, name, None), getattr(SyncClient, name)
        if callable(ours):
            assert inspect.signature(ours).parameters.keys() == inspect.signature(theirs).parameters.keys(), name


def test_a_wrong_value_is_refused_where_it_is_written() -> None:
    wrong: Any = {"roots": "/srv"}
    with pytest.raises(LocalError, match="SyncClient.*roots must be a list of paths"):
        SyncClient(served(), **wrong)
    with pytest.raises(TypeError, match="'elicitation'"):
        SyncClient(served(), **{"elicitation_handler": None})
