"""The audit log of a gateway: a line for each call, without arguments and results."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

from ..errors import LocalError

_log: Final = logging.getLogger("mcp_runtime.audit")


class AuditLog:
    """Writes calls to the logger `mcp_runtime.audit`, and as lines of JSON to a file."""

    def __init__(self, path: Path | None) -> None:
        """Open the file for appending; None writes to the logger only. Raises LocalError if it cannot be written."""
        self.path = path
        self._file: TextIO | None = None
        if path is not None:
            try:
                self._file = path.open("a", encoding="utf-8")
            except OSError as error:
                raise LocalError(f"the audit log {path} cannot be written: {error.strerror}") from None

    def write(self, *, seconds: float, **fields: Any) -> None:
        """Write a line: the server, what was called, the user, the outcome, and the seconds that it took."""
        line = {"time": datetime.now(UTC).isoformat(), **fields, "seconds": round(seconds, 6)}
        _log.info("%s %r of %r: %s", fields["kind"], fields["name"], fields["upstream"], fields["outcome"])
        if self._file is not None:
            print(json.dumps(line), file=self._file, flush=True)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
