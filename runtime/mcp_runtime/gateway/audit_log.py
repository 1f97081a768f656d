"""The audit log of a gateway: a line for each call, without arguments and results."""

from __future__ import annotations

import json
import logging
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

from ..errors import LocalError
from ..usage.shortened import shortened

_log: Final = logging.getLogger("mcp_runtime.audit")

_APPENDING: Final = os.O_APPEND | os.O_CREAT | os.O_WRONLY
_MODE: Final = 0o600
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_MAX_USER: Final = 1000  # Characters of what identifies a user.


class AuditLog:
    """Writes calls to the logger `mcp_runtime.audit`, and as lines of JSON to a file.

    Names and users that are long are shortened, so that a line has a size whatever a client sends.
    """

    def __init__(self, path: Path | None) -> None:
        """Open the file for appending; None writes to the logger only. Raises LocalError if it cannot be written.

        Only the user of this process can read a file that is created here. A file that exists keeps its mode, with a
        warning if others can read it.
        """
        self.path = path
        self._file: TextIO | None = None
        if path is not None:
            try:
                self._file = os.fdopen(os.open(path, _APPENDING, _MODE), "a", encoding="utf-8")
                _warn_about_readers(path, os.fstat(self._file.fileno()))
            except OSError as error:
                raise LocalError(f"the audit log {path} cannot be written: {error.strerror}") from None

    def write(self, *, seconds: float, name: str, user: str, **fields: Any) -> None:
        """Write a line: the server, what was called, the user, the outcome, and the seconds that it took."""
        fields = {**fields, "name": shortened(name), "user": shortened(user, _MAX_USER)}
        _log.info("%s %r of %r: %s", fields["kind"], fields["name"], fields["upstream"], fields["outcome"])
        if self._file is not None:
            line = {"time": datetime.now(UTC).isoformat(), **fields, "seconds": round(seconds, 6)}
            print(json.dumps(line), file=self._file, flush=True)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _warn_about_readers(path: Path, status: os.stat_result) -> None:
    if os.name == "posix" and stat.S_ISREG(status.st_mode) and status.st_mode & _OTHERS:
        _log.warning("others can read the audit log %s: run chmod 600 on it", path)
