"""What the result of a failed tool call shows to the model."""

from __future__ import annotations

import logging
from typing import Final

from ...usage.unwritable import escaped

ShownExceptions = tuple[type[Exception], ...]

_log: Final = logging.getLogger(__name__)


def failure_message(error: Exception, shown_exceptions: ShownExceptions, description: str) -> str:
    """Return the text of an exception if its class is shown, else only that the tool failed; then log the exception."""
    if isinstance(error, shown_exceptions):
        return escaped(str(error))
    from ...stores.primitives import StoreUnavailableError

    _log.error("%s failed", description, exc_info=error)
    unavailable = ": the store of this server cannot be reached; call it again later"
    return f"{description} failed{unavailable if isinstance(error, StoreUnavailableError) else ''}"


class ToolFailures:
    """The exceptions of tools that pass through middleware, with what their apps show of them."""

    def __init__(self) -> None:
        self._raised: list[tuple[Exception, ShownExceptions, str]] = []

    def add(self, error: Exception, shown_exceptions: ShownExceptions, description: str) -> None:
        """Add the exception of a tool; an earlier one of the same call is replaced."""
        self._raised = [(error, shown_exceptions, description)]

    def message(self, error: Exception, shown_exceptions: ShownExceptions, description: str) -> str:
        """Return the text for the exception that leaves the middleware.

        An exception of the tool is shown by the rules of its app, another one by those of the arguments.
        """
        for raised, shown, tool in self._raised:
            if raised is error:
                shown_exceptions, description = shown, tool
        self._raised.clear()  # The exception has a reference to the frame of the caller.
        return failure_message(error, shown_exceptions, description)
