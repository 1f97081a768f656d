"""What the page of a gateway shows of the past: the last calls, what conversions have lost, and the end of the log."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from ...usage.shortened import shortened

_MAX_CALLS: Final = 200
_MAX_RUNNING: Final = 1000  # Calls that run and are shown.
_MAX_LINES: Final = 100
_MAX_LINE: Final = 500  # Characters, as long texts of calls and losses have a limit.
_MAX_KINDS: Final = 200
_LOSSES: Final = "mcp_runtime.versions.conversion.report"
_LOG: Final = "mcp_runtime.gateway"


class RecentRecords(logging.Handler):
    """The last calls, losses and lines. It is a handler of the loggers of gateways and of conversions."""

    def __init__(self) -> None:
        """Create records, which are empty until `begin`."""
        super().__init__(logging.DEBUG)
        self.calls: deque[dict[str, Any]] = deque(maxlen=_MAX_CALLS)
        self.running: dict[int, dict[str, Any]] = {}
        self.lines: deque[dict[str, Any]] = deque(maxlen=_MAX_LINES)
        self.losses: dict[str, int] = {}
        self._last = 0

    def begin(self) -> None:
        """Collect what the loggers get from now on."""
        losses = logging.getLogger(_LOSSES)
        if not losses.isEnabledFor(logging.DEBUG):  # Nobody else reads them: they are for the page only.
            losses.setLevel(logging.DEBUG)
            losses.propagate = False
        for name in (_LOSSES, _LOG):
            logging.getLogger(name).addHandler(self)

    def end(self) -> None:
        """Collect nothing more."""
        for name in (_LOSSES, _LOG):
            logging.getLogger(name).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Count a loss by its rule, or add a line."""
        if record.name == _LOSSES:
            rule = shortened(str(record.args[1])) if isinstance(record.args, tuple) and len(record.args) > 1 else ""
            if rule in self.losses or len(self.losses) < _MAX_KINDS:
                self.losses[rule] = self.losses.get(rule, 0) + 1
            return
        text = shortened(record.getMessage(), _MAX_LINE)
        self.lines.append({"time": record.created, "level": record.levelname, "text": text})

    def call_began(self, fields: Mapping[str, str]) -> int:
        """Note a call that runs, and return its number. Long texts are shortened."""
        self._last += 1
        if len(self.running) < _MAX_RUNNING:
            shown = {key: shortened(text) for key, text in fields.items()}
            self.running[self._last] = {"number": self._last, "time": time.time(), **shown}
        return self._last

    def call_ended(self, number: int, **fields: Any) -> None:
        """Note how a call ended: its outcome, the seconds that it took, and the bytes of its result."""
        call = self.running.pop(number, None)
        if call is not None:
            self.calls.append({**call, **fields})

    def shown(self) -> dict[str, Any]:
        """Return all records as JSON, the last first."""
        return {
            "running": [*self.running.values()],
            "calls": [*reversed(self.calls)],
            "losses": dict(self.losses),
            "log": [*reversed(self.lines)],
        }
