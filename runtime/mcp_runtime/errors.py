"""The exceptions of this package.

MCPError
├── LocalError                              this side cannot or must not do what was called
│   ├── ProtocolViolationError              the message may not be sent now, or needs an undeclared capability
│   │   └── ClientCapabilityError           the client cannot do what a function of an app requests
│   ├── InvalidMessageError                 params or a result do not match the schema of the revision
│   │   └── UnwritableValueError            a value has no form in JSON
│   ├── ConversionError                     a message cannot be converted to the other side's revision
│   ├── ConnectionClosedError               there is no connection, or it closed before the response arrived
│   ├── AuthorizationError                  no access token could be obtained
│   │   └── AuthorizationServerUnavailableError   the authorization server did not respond
│   ├── RequestTimeoutError                 no response arrived within the timeout
│   └── InvalidSchemaError                  a JSON Schema is invalid, or unsafe to use
├── RemoteError                             the other side failed, or sent something invalid
│   ├── RemoteJSONRPCError                  it responded with a JSON-RPC error
│   ├── HTTPStatusError                     it responded with an HTTP error status and no JSON-RPC error
│   ├── ToolResultError                     a tool returned a result with `isError`
│   ├── SkillVerificationError              a skill does not match its published entry
│   └── InvalidResponseError                it responded with a result that does not match the schema
└── JSONRPCError                            raised by a handler, to respond with this JSON-RPC error
"""

from __future__ import annotations

import re
from typing import Any, Final

_HOME: Final = f"{__name__.rpartition('.')[0]}."
# Characters that steer a terminal, or change the order of what it shows: C0 without the line feed and the tabulator,
# C1, and those that format text in two directions or are invisible.
_STEERING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


DOCUMENTATION: Final = "https://mcp-codegen.example/docs"  # The address of `Documentation` in pyproject.toml.


def printable(text: str) -> str:
    """Return text of a peer with the characters that steer a terminal escaped."""
    return _STEERING.sub(lambda match: ascii(match[0])[1:-1], text)


class TracebackNotes:
    """The notes of an exception (PEP 678), which a traceback ends with: at first, where its class is documented.

    An instance gets its list when it is first read, so that raising costs nothing, and `add_note` works.
    """

    def __get__(self, error: BaseException | None, owner: type[BaseException]) -> list[str]:
        if error is None:
            raise AttributeError("__notes__")
        ours = next(base for base in owner.__mro__ if _is_documented(base))
        notes = error.__dict__["__notes__"] = [f"see {DOCUMENTATION}/troubleshooting.html#{ours.__name__.lower()}"]
        return notes


def _is_documented(error: type) -> bool:
    """Return True for a class of the core, and for one that has notes of its own."""
    return error.__module__.startswith(_HOME) or "__notes__" in vars(error)


class MCPError(Exception):
    """The base class of all exceptions of this package; catch it to catch all of them."""

    is_refusal: bool = False
    """True for what the client has refused, or cannot do, while its request is handled: it gets this error, unless the
    handler catches it."""

    __notes__: Any = TracebackNotes()


class LocalError(MCPError):
    """Raised if this side cannot or must not do what was called; the message names the rule."""

    def __str__(self) -> str:
        return printable(super().__str__())  # It may quote the peer.


class NotInstalledError(LocalError, ImportError):
    """Raised if a package is missing; the message says what to install. Programs that read all names of a module, such
    as freezegun, skip a name that raises ImportError."""


class ProtocolViolationError(LocalError):
    """Raised if a message may not be sent: wrong direction, wrong phase, or a missing capability. Declare the
    capability, or check the peer's capabilities before sending."""


class ClientCapabilityError(ProtocolViolationError):
    """Raised if the client cannot do what a function of an app requests, such as showing a form; the message names the
    capability that it lacks. Check `ctx.capabilities` before the request, or catch this error to do without."""

    is_refusal = True


class InvalidMessageError(LocalError):
    """Raised if params or a result do not match the schema; correct the property that the message names."""


class UnwritableValueError(InvalidMessageError):
    """Raised if a value has no form in JSON; the message names its place, the reason and what to write, and never
    contains the value."""


class ConversionError(LocalError):
    """Raised if a message cannot be converted to the other side's revision; the message names the rule."""

    rule = ""
    """The rule that refuses it."""


class ConnectionClosedError(LocalError):
    """Raised if there is no connection, or it closed before the response arrived; connect again.

    `output` has the last lines of standard error of the process that was connected; empty without one.
    """

    def __init__(self, reason: str = "", output: str = "") -> None:
        super().__init__(reason)
        self.output = output

    @property
    def reason(self) -> str:
        """The message without the output of the process."""
        return super().__str__()

    def __str__(self) -> str:
        return self.reason + (f"; its standard error ended with:\n  {printable(self.output)}" if self.output else "")


class AuthorizationError(LocalError):
    """Raised if no access token could be obtained; the message names the rule, and never contains a secret."""


class AuthorizationServerUnavailableError(AuthorizationError):
    """Raised if the authorization server did not respond; try again later."""


class RequestTimeoutError(LocalError, TimeoutError):
    """Raised if no response arrived within the timeout; retry, or set a longer timeout. It is a `TimeoutError` too."""


class InvalidSchemaError(LocalError):
    """Raised if a JSON Schema is invalid, or unsafe to use; correct the schema."""


class RemoteError(MCPError):
    """Raised if the other side failed, or sent something invalid. As a string it has no characters that steer a
    terminal."""

    def __str__(self) -> str:
        return printable(super().__str__())


class RemoteJSONRPCError(RemoteError):
    """Raised if the peer responded with a JSON-RPC error. `code`, `message` and `data` are those of the error;
    `status` is the HTTP status of the response if it was an error status."""

    def __init__(self, code: int, message: str, data: object = None, status: int | None = None) -> None:
        super().__init__(f"{message} (code {code})")
        self.code = code
        self.message = message
        self.data = data
        self.status = status


class HTTPStatusError(RemoteError):
    """Raised if the peer responded with an HTTP error status and no JSON-RPC error: 401 and 403 need authorization, 5xx
    may work later."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ToolResultError(RemoteError):
    """Raised if a tool returned a result with `isError`; `result` is the complete result."""

    def __init__(self, message: str, result: object) -> None:
        super().__init__(message)
        self.result = result


class SkillVerificationError(RemoteError):
    """Raised if a skill or one of its files does not match its published entry; do not use it."""


class InvalidResponseError(RemoteError):
    """Raised if a response does not match the schema of its method; report it to the authors of the peer."""


class JSONRPCError(MCPError):
    """Raise it in a handler to respond with this JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        """Create the error.

        Args:
            code: The JSON-RPC error code; constants are in `mcp_runtime.protocol.jsonrpc`.
            message: A short description for the peer.
            data: Further JSON information for the peer.
        """
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ToolError(MCPError):
    """Raise it in a tool to return a result with `isError`; the model sees the message."""
