"""The server of examples/everything/app.py: its command, its tools, and its URL over HTTP."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any, Final

from conformance.wires import served

from support.endpoints import INVALID_PARAMS
from support.processes import end_with_session
from support.project import ROOT

APP: Final = str(ROOT / "examples" / "everything" / "app.py")
TOOLS: Final = [
    *("echo", "statistics", "image", "audio", "mixed", "fail", "long_running", "log_something", "write_note"),
    *("toggle_extra", "sample", "list_roots", "elicit_name"),
]


@cache
def origin() -> str:
    """Where a server of this process serves over HTTP."""
    process, url = served((APP, "http", "--port", "0"), "everything")
    assert process.stderr is not None
    threading.Thread(target=process.stderr.read, daemon=True).start()
    end_with_session(process)
    return url


def check_official_client(seen: dict[str, Any], revision: str) -> None:
    """What an official client has to see, in the revision that it speaks."""
    calls = seen["calls"]
    assert seen["tools"][:5] == TOOLS[:5]
    assert calls["echo"]["content"][0]["text"] == "héllo\n\u2028"
    structured = {"count": 2, "sum": 3.5, "maximum": 2.5} if revision >= "2025-06-18" else None
    assert calls["statistics"].get("structuredContent") == structured
    kinds = [content["type"] for content in calls["mixed"]["content"]]
    assert kinds == ["text", "image", "resource", "resource_link" if revision >= "2025-06-18" else "text"]
    assert calls["audio"]["content"][0]["type"] == ("audio" if revision >= "2025-03-26" else "resource")
    assert calls["fail"]["isError"] is True and calls["nonsense"]["error"]["code"] == INVALID_PARAMS
    assert calls["list_roots"]["content"][0]["text"] == "work: file:///work"
    assert calls["sample"]["content"][0]["text"] == "parrot (endTurn): HELLO"
    if revision >= "2025-06-18":
        assert calls["elicit_name"]["content"][0]["text"].startswith("accept: ")
    assert seen["resource"]["contents"][0]["text"] == "This is number 7."
    assert seen["prompt"]["messages"][0]["content"]["text"] == "Describe Rome in a short text."
    assert seen["completion"] == ["Padua", "Paris", "Pau"]
    words = ["step 1", "step 2", "done"] if revision >= "2025-03-26" else [None] * 3
    progress = [[number, 2, word] for number, word in enumerate(words)]
    # The TypeScript client forgets whom progress is for as soon as the answer is there, which follows the last at once.
    assert seen["progress"] in (progress, progress[:2])
