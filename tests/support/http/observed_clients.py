"""Clients of the app in servers/observed.py: of each revision, over stdio and HTTP."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import pytest
from conformance.wires import served
from support.endpoints import ALL_REVISIONS, Rev
from support.processes import end_with_session
from support.project import ROOT

APP: Final = str(ROOT / "tests" / "support" / "servers" / "observed.py")
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"

CELLS: Final = pytest.mark.parametrize(
    ("transport", "rev"),
    [
        *(("http", rev) for rev in ALL_REVISIONS[-3:]),
        # Each of these tests starts a process of its own.
        ("stdio", ALL_REVISIONS[-1]),
        *(pytest.param("stdio", rev, marks=pytest.mark.long) for rev in ALL_REVISIONS[-3:-1]),
    ],
    ids=str,
)


@cache
def origin() -> str:
    """Return where a server of this process serves over HTTP."""
    process, url = served((APP, "http"), "observed")
    assert process.stderr is not None
    threading.Thread(target=process.stderr.read, daemon=True).start()
    end_with_session(process)
    return url


def observed_client(
    transport: str, rev: Rev, handlers: dict[str, Callable[..., Any]] | None = None, **settings: Any
) -> Any:
    """Return a client with handlers, which is not connected yet."""
    members = {name: staticmethod(handler) for name, handler in (handlers or {}).items()}
    kind: Any = type("Observing", (rev.package.Client,), members)
    if transport == "stdio":
        env = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        return kind.stdio(sys.executable, APP, env=env, stderr=lambda line: None, **settings)
    return kind.http(f"{origin()}/mcp", **settings)


def wants_logs(rev: Rev, level: str = "debug") -> dict[str, Any]:
    """Return the keywords of a call that receives log messages where there is no session."""
    return {"meta": {LOG_LEVEL: level}} if rev.stateless else {}


def text_of(result: Any) -> str:
    """Return the text of a result."""
    [content] = result.content
    assert not result.is_error, content.text
    return str(content.text)
