"""The ASGI lifespan of an application, message by message, as a server of ASGI drives it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_generated import App

LIFESPAN = {"type": "lifespan", "asgi": {"version": "3.0"}}


async def conversation(asgi: Any, *messages: str, scope: dict[str, Any] = LIFESPAN) -> list[dict[str, Any]]:
    """Return what an application sends until it has read these messages and has ended."""
    pending = iter([{"type": message} for message in messages])
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return next(pending)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async with asyncio.timeout(10):
        await asgi(scope, receive, send)
    return sent


def app_of(events: list[str], fails: bool = False) -> App:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        if fails:
            raise OSError("a secret of the database")
        events.append("begins")
        yield
        events.append("ends")

    return App("app", lifespan=lifespan)


async def test_startup_opens_the_app_and_shutdown_closes_it() -> None:
    events: list[str] = []
    sent = await conversation(app_of(events).asgi(), "lifespan.startup", "lifespan.shutdown")
    assert [message["type"] for message in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert events == ["begins", "ends"]


async def test_a_lifespan_that_fails_is_named_without_its_text() -> None:
    sent = await conversation(app_of([], fails=True).asgi(), "lifespan.startup")
    assert sent == [{"type": "lifespan.startup.failed", "message": "OSError"}]


async def test_a_setting_that_cannot_work_is_one_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "gone" / "store.db"
    file.parent.mkdir()
    application = App("app").asgi(store=f"sqlite:///{file}")
    file.parent.rmdir()
    sent = await conversation(application, "lifespan.startup")
    assert sent == [{"type": "lifespan.startup.failed", "message": "LocalError"}]
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert f"{file}: cannot be created" in record.getMessage() and not record.exc_info


async def test_a_websocket_is_closed_at_once() -> None:
    scope = {"type": "websocket", "path": "/mcp", "headers": []}
    assert await conversation(app_of([]).asgi(), scope=scope) == [{"type": "websocket.close", "code": 1000}]
