"""The lock of tools: their definitions as a person has approved them, so that a change does not reach a model."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from ..errors import LocalError
from ..protocol.models import is_object

_log: Final = logging.getLogger("mcp_runtime.gateway")


class ToolLock:
    """The digests of the definitions of tools, by server and name. Others are refused."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises LocalError if there is none, or if it is damaged."""
        try:
            content = json.loads(path.read_bytes())
        except OSError as error:
            raise LocalError(
                f"the lock {path} cannot be read: {error.strerror}; write it with mcp-codegen gateway FILE --lock"
            ) from None
        except ValueError as error:
            raise LocalError(f"the lock {path} is not JSON: {error}; write it anew with --lock") from None
        if not is_object(content) or not all(is_object(tools) for tools in content.values()):
            raise LocalError(f"the lock {path} has another form; write it anew with --lock")
        self._digests: Mapping[str, Mapping[str, str]] = content
        self.alarms: dict[tuple[str, str], str] = {}
        """What differs, by server and tool."""

    def accepted(self, upstream: str, tools: Sequence[Any]) -> list[Any]:
        """Return the tools that are as they were when the lock was written; log the first alarm of each other one."""
        own = self._digests.get(upstream, {})
        accepted: list[Any] = []
        for tool in tools:
            if own.get(tool.name) == digest(tool):
                accepted.append(tool)
                self.alarms.pop((upstream, tool.name), None)
                continue
            reason = "has changed" if tool.name in own else "is new"
            if self.alarms.get((upstream, tool.name)) != reason:
                _log.error(
                    "alarm: the tool %r of %r %s since the lock was written: refused", tool.name, upstream, reason
                )
            self.alarms[upstream, tool.name] = reason
        return accepted


def digest(tool: Any) -> str:
    """Return the digest of all that a model sees of a tool."""
    fields = {key: value for key, value in tool.model_dump().items() if key != "_meta"}
    return "sha256:" + sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def write_lock(path: Path, tools: Mapping[str, Sequence[Any]]) -> None:
    """Write the lock of the tools of servers."""
    content = {name: {tool.name: digest(tool) for tool in listed} for name, listed in tools.items()}
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
