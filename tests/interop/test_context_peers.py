"""The official Python clients use the context of an app without capabilities by hand, in all their revisions."""

from __future__ import annotations

import json
import os
import sys
import threading
from functools import cache
from typing import Any

import pytest
from conformance.wires import served
from support.endpoints import ALL_REVISIONS
from support.peers import driven, python_peer
from support.processes import end_with_session
from support.project import ROOT

pytestmark = pytest.mark.long

APP = str(ROOT / "tests" / "support" / "servers" / "context.py")
COMBINATIONS = [("mcp==1.30.0", rev.id) for rev in ALL_REVISIONS if not rev.stateless] + [
    ("mcp==2.3.0", rev.id) for rev in ALL_REVISIONS
]


@cache
def origin() -> str:
    """Return where a server of this process serves over HTTP."""
    process, url = served((APP, "http"), "context of peers")
    assert process.stderr is not None
    threading.Thread(target=process.stderr.read, daemon=True).start()
    end_with_session(process)
    return url


def target(transport: str, revision: str) -> list[str]:
    """Return the command or the URL of the server."""
    if transport == "http":
        return [origin() + ("/mcp" if revision >= "2025-03-26" else "/sse")]
    path = os.environ.get("PYTHONPATH")
    return [*(["env", f"PYTHONPATH={path}"] if path else []), sys.executable, APP]


def text_of(result: dict[str, Any]) -> str:
    """Return the text of a tool's result."""
    assert "content" in result and not result.get("isError"), result
    return str(result["content"][0]["text"])


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize(("sdk", "versions"), COMBINATIONS)
def test_the_official_client_uses_the_context(sdk: str, versions: str, transport: str) -> None:
    revision = versions
    seen = driven(python_peer(sdk), "python_context.py", revision, *target(transport, revision))
    calls = seen["calls"]
    assert text_of(calls["log_all"]) == "logged"
    assert json.loads(text_of(calls["own"]))["text"] == ["a note", "text/plain"]
    assert text_of(calls["write_text"]) == "HELLO"
    assert json.loads(text_of(calls["by_session"])) == {"text": "HELLO", "roots": ["work"]}
    who = json.loads(text_of(calls["who"]))
    assert who["revision"] == revision and (who["client"] == "127.0.0.1") is (transport == "http")
    if revision >= "2025-06-18":
        assert json.loads(text_of(calls["fill_in"]))["type"] == "Booking"
    else:
        assert calls["fill_in"]["isError"] is True and revision in calls["fill_in"]["content"][0]["text"]
    if revision >= "2025-11-25":
        assert text_of(calls["visit"]) == "accept"
    else:
        assert calls["visit"]["isError"] is True
    assert text_of(calls["forget"]) == "object"
    has_session = transport == "stdio" or revision != ALL_REVISIONS[-1].id
    assert [text_of(result) for result in seen["counts"]] == (["1", "2"] if has_session else ["1", "1"])
    texts = ["half", "done"] if revision >= "2025-03-26" else [None, None]
    assert seen["progress"] == [[1, 2, texts[0]], [2, 2, texts[1]]]
    if revision != ALL_REVISIONS[-1].id:
        levels = [
            message["params"]["level"] for message in seen["notifications"] if "level" in message.get("params", {})
        ]
        assert levels[:6] == ["debug", "info", "warning", "error", "notice", "critical"]
