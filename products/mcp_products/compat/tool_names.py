"""The checks of the names of tools of the official SDK, whose warnings do not refuse a name.

https://modelcontextprotocol.io/specification/draft/server/tools#tool-names
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from .words import log

_MAX_LENGTH: Final = 128
_INVALID: Final = re.compile(r"[^A-Za-z0-9_.-]")
_ENDS: Final = {"-": "a dash", ".": "a dot"}


@dataclass
class ToolNameValidationResult:
    """Whether a name is one of the specification, and what speaks against it."""

    is_valid: bool
    warnings: list[str] = field(default_factory=list[str])


def validate_tool_name(name: str) -> ToolNameValidationResult:
    """Return what speaks against the name of a tool."""
    if not name:
        return ToolNameValidationResult(False, ["Tool name cannot be empty"])
    if len(name) > _MAX_LENGTH:
        reason = f"Tool name exceeds maximum length of {_MAX_LENGTH} characters (current: {len(name)})"
        return ToolNameValidationResult(False, [reason])
    warnings = [f"Tool name starts or ends with {text}" for end, text in _ENDS.items() if end in (name[0], name[-1])]
    if wrong := [*dict.fromkeys(_INVALID.findall(name))]:
        warnings.append(f"Tool name contains invalid characters: {', '.join(map(repr, wrong))}")
    return ToolNameValidationResult(not wrong, warnings)


def issue_tool_name_warning(name: str, warnings: Sequence[str]) -> None:
    """Log what speaks against the name of a tool; nothing without a reason."""
    if warnings:
        reasons = "\n".join(f"  - {warning}" for warning in warnings)
        log.warning(
            'Tool name validation warning for "%s" (SEP-986):\n%s\nTool registration will proceed', name, reasons
        )


def validate_and_warn_tool_name(name: str) -> bool:
    """Return True for a name of the specification; the log has what speaks against a name."""
    result = validate_tool_name(name)
    issue_tool_name_warning(name, result.warnings)
    return result.is_valid
