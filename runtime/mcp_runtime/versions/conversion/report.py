"""The report of a conversion: the values that the other revision cannot represent."""

from __future__ import annotations

import logging
from typing import Any, Final, NamedTuple

from ...usage.records import Record

_log: Final = logging.getLogger(__name__)

Path = tuple[Any, Any] | None  # The path of the parent, and the key in it; None for the root.


class Loss(NamedTuple):
    """One lost value: its path, the conversion rule that dropped it, the reason of the rule, and the value."""

    path: str
    rule: str
    reason: str
    value: Any


class ConversionReport(Record):
    """All losses of one or more conversions, in order."""

    __slots__ = ("losses",)

    def __init__(self, losses: list[Loss] | None = None) -> None:
        self.losses: list[Loss] = [] if losses is None else losses


def record_loss(report: ConversionReport | None, path: Path, rule: str, reason: str, value: Any) -> None:
    """Add a loss to the report, if there is one, and to the debug log."""
    if report is not None:
        report.losses.append(Loss(format_path(path), rule, reason, value))
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug("lost in conversion: %s: %s: %s", format_path(path), rule, reason)


def format_path(path: Path) -> str:
    """Return a path as text, such as `content.0.annotations`; empty for the root."""
    steps: list[str] = []
    while path is not None:
        path, key = path
        steps.append(str(key))
    return ".".join(reversed(steps))
