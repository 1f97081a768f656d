"""What could not pass: counted by kind, and logged once for each kind."""

from __future__ import annotations

import logging
from typing import Final

from ...protocol.revision import META
from ...usage.shortened import shortened
from ...versions.conversion.report import Loss

_log: Final = logging.getLogger("mcp_runtime.bridge")

_MAX_KINDS: Final = 1000
_MAX_REASON: Final = 1000  # Characters, as those of a kind have a limit: both may repeat what a peer has sent.
# What the bridge itself writes or reads, so that nothing is lost without its conversion.
_OWN: Final = (META, ".resultType", ".inputResponses", ".requestState", "InputRequiredResult")


def is_own(rule: str) -> bool:
    """Return True if a rule drops only what the bridge itself handles."""
    return any(name in rule for name in _OWN)


class LossCounter:
    """The losses of a bridge: how often each kind occurred."""

    def __init__(self) -> None:
        """Create a counter without losses."""
        self.counts: dict[str, int] = {}

    def add(self, kind: str, reason: str) -> None:
        """Count a loss; log the first of its kind."""
        kind = shortened(kind)
        count = self.counts.get(kind, 0)
        if not count:
            if len(self.counts) >= _MAX_KINDS:
                return
            _log.warning("lost: %s (%s)", kind, shortened(reason, _MAX_REASON))
        self.counts[kind] = count + 1

    def add_all(self, losses: list[Loss], place: str) -> None:
        """Count the losses of a conversion; `place` is what was converted."""
        for loss in losses:
            if not is_own(loss.rule):
                self.add(f"{place}: {loss.rule}", loss.reason)
