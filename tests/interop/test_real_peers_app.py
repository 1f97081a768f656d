"""The official Python SDK's client, in both its versions, uses an app over stdio."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from support.peers import driven, python_peer
from support.project import SERVERS

pytestmark = pytest.mark.long

COMMAND = [sys.executable, str(SERVERS / "app.py"), "stdio"]


# The SDK, and the revision that it agrees on with an app.
SDKS = {"mcp==1.30.0": "2025-11-25", "mcp==2.3.0": "2026-07-28"}


@pytest.fixture(scope="module", params=SDKS)
def seen(request: pytest.FixtureRequest) -> dict[str, Any]:
    result: dict[str, Any] = driven(python_peer(request.param), "app_client.py", *COMMAND)
    assert result["revision"] == SDKS[request.param]
    return result


def texts(result: dict[str, Any]) -> list[str]:
    return [content["text"] for content in result["content"] if content["type"] == "text"]


def test_the_official_client_uses_tools_resources_and_prompts_of_an_app(seen: dict[str, Any]) -> None:
    calls = seen["calls"]
    assert seen["tools"][:4] == ["google", "numpy_style", "rest_style", "get-forecast"]
    assert texts(calls["google"]) == ["Rome 2"]
    assert calls["get-forecast"]["isError"] is True and "valid number" in texts(calls["get-forecast"])[0]
    assert texts(calls["who"])[0].endswith(", sample")
    assert calls["point"]["structuredContent"] == {"x": 3, "y": 0}
    assert calls["total"]["structuredContent"] == {"result": 3}
    assert [content["type"] for content in calls["mixed"]["content"]] == ["text", "image", "audio", "resource"]
    assert calls["refuses"]["isError"] is True and texts(calls["refuses"]) == ["not on a Sunday"]
    assert json.loads(seen["resource"]["contents"][0]["text"]) == {"city": "Rome", "day": 2}
    assert seen["prompt"]["messages"][0]["content"]["text"] == "Review 1: x"
