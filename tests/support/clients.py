"""The generated client of the newest protocol version for any target: for tests of messages and their types."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from mcp_generated.v2026_07_28 import Client
from mcp_runtime.bindings.client import BaseClient, Target
from mcp_runtime.bindings.client import connect as connect_client

ClientT = TypeVar("ClientT", bound=BaseClient)


@overload
def connect(target: Target, *, client: type[ClientT], revisions: Any = "all", **settings: Any) -> ClientT: ...
@overload
def connect(target: Target, *, client: None = None, revisions: Any = "all", **settings: Any) -> Client: ...
def connect(target: Any, *, client: Any = None, revisions: Any = "all", **settings: Any) -> Any:
    """Return `connect(target, client=Client)` of the newest version."""
    return connect_client(client or Client, target, revisions, settings)
