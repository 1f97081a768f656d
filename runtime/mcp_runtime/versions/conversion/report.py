"""The report of a conversion: the values that the other revision cannot represent."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

_log: Final = logging.getLogger(__name__)

Path = tuple[Any, Any] | None  # The path of the parent, and the key in it; None for the root.


class Loss(NamedTuple):
    """One lost value: its path, the conversion rule that dropped it, the reason of the rule, and the value."""

    path: str
    rule: str
    reason: str
    value: Any


@dataclass(slots=True)
class ConversionReport:
    """All losses of one or more conversions, in order."""

    losses: list[Loss] = field(default_factory=list[Loss])


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
