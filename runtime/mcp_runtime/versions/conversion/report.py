"""What a conversion had to give up goes in, one by one; tests, proxies and the log read it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, Final

Path = tuple[Any, Any] | None  # The path of the holder, and the key in it.

log: Final = logging.getLogger("mcp_runtime")


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that the other revision cannot say: where it stood, by which rule it went, why, and what it was."""

    path: str
    rule: str
    reason: str
    what: Any


@dataclass(slots=True)
class ConversionReport:
    """Every loss of one or more conversions, in order."""

    losses: list[Loss] = field(default_factory=list[Loss])


def record_loss(report: ConversionReport | None, path: Path, rule: str, reason: str, what: Any) -> None:
    """Tell the report, where somebody wants one, and the log."""
    if report is not None:
        report.losses.append(Loss(format_path(path), rule, reason, what))
    if log.isEnabledFor(logging.DEBUG):
        log.debug("lost in conversion: %s: %s: %s", format_path(path), rule, reason)


def format_path(path: Path) -> str:
    """`content.0.annotations`; empty for the whole."""
    steps: list[str] = []
    while path is not None:
        path, key = path
        steps.append(str(key))
    return ".".join(reversed(steps))
