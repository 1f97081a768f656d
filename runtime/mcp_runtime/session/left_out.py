"""Report the parts of a message that were left out because they could not be read."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ..protocol.revision import InputRequest, Revision, Sent
from .tracing import OPENTELEMETRY, metrics_module

if TYPE_CHECKING:
    from ..protocol.lenient import LeftOut

_log: Final = logging.getLogger(__name__)

_MAX_NAMED: Final = 10  # Parts of one message that the log names.


def report_left_out(revision: Revision, row: Sent | InputRequest[Any], left_out: Sequence[LeftOut]) -> None:
    """Log a warning for each part that was left out of a message, and count them."""
    for part in left_out[:_MAX_NAMED]:
        _log.warning("%r in %s: left out, because it cannot be read: %s", row.method, revision.id, part)
    if len(left_out) > _MAX_NAMED:
        _log.warning("%r in %s: %d further parts are left out", row.method, revision.id, len(left_out) - _MAX_NAMED)
    if OPENTELEMETRY in sys.modules and (metrics := metrics_module("left_out_counter")) is not None:
        metrics.count(revision.id, row.method, len(left_out))
