"""Every error this package raises, in one tree.

MCPError
├── LocalError            you tried something the protocol forbids, or there is no connection to do it on
│   ├── ProtocolViolationError        this method, in this direction, at this moment, with what was declared
│   ├── InvalidMessageError    what you gave does not fit the schema of the revision
│   ├── ConversionError    what one revision says cannot be said in the other
│   ├── ConnectionClosedError      the connection is closed, or ended before the answer came
│   ├── AuthorizationError     no token was had, or may be asked for: what a server of authorization says is not safe or not so
│   │   └── Unreachable   a server of authorization gave no answer, which says nothing about what was asked
│   ├── RequestTimeoutError          no answer came before the deadline of the call
│   └── InvalidSchemaError    a JSON Schema is not one, or not one that is safe to use
├── RemoteError           the peer did something wrong, or said no
│   ├── RemoteJSONRPCError     it answered with a JSON-RPC error
│   ├── Rejected          it answered with an HTTP status that stands for no answer, and said no more
│   ├── ToolResultError        a tool says that it failed (raised by what `mcp-codegen tools` writes)
│   ├── Unverified        a skill is not what its entry says, or the entry is none
│   └── InvalidResponseError   it answered with something the schema of the revision does not allow
└── JSONRPCError               raised by a handler: the peer gets this JSON-RPC error as its answer
"""

from __future__ import annotations


class MCPError(Exception):
    """The root: catch this to catch everything."""


class LocalError(MCPError):
    """Something this side tried and must not, or cannot, do."""


class ProtocolViolationError(LocalError):
    """The method is unknown here, goes the other way, comes too early, or needs what was not declared."""


class InvalidMessageError(LocalError):
    """The params or the result given do not fit the schema."""


class ConversionError(LocalError):
    """A message cannot be said in the other side's revision; the rule that says so is named."""


class ConnectionClosedError(LocalError):
    """There is no connection, or it ended while an answer was awaited."""


class AuthorizationError(LocalError):
    """Authorization came to no token; the message names the rule, and never a secret."""


class AuthorizationServerUnavailableError(AuthorizationError):
    """A server of authorization gave no answer; another time it may."""


class RequestTimeoutError(LocalError):
    """The deadline of a call passed before its answer came."""


class InvalidSchemaError(LocalError):
    """A JSON Schema that is none, of an unknown dialect, refers elsewhere, or could take too long."""


class RemoteError(MCPError):
    """Something the peer did."""


class RemoteJSONRPCError(RemoteError):
    """A JSON-RPC error from the peer: its code, its message and its data, as they came; over HTTP, also the status it
    came with, if that was one of an error."""

    def __init__(self, code: int, message: str, data: object = None, status: int | None = None) -> None:
        super().__init__(f"{message} (code {code})")
        self.code = code
        self.message = message
        self.data = data
        self.status = status


class HTTPStatusError(RemoteError):
    """An HTTP status that stands for no answer: 401 and 403 where who asks may not, 5xx where something broke."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ToolResultError(RemoteError):
    """A tool says that it failed; `result` is its whole answer."""

    def __init__(self, message: str, result: object) -> None:
        super().__init__(message)
        self.result = result


class SkillVerificationError(RemoteError):
    """A skill, or a file of it, is not what was published of it: it must not be used; the message names the rule."""


class InvalidResponseError(RemoteError):
    """An answer that is not what the method's result may be."""


class JSONRPCError(MCPError):
    """A JSON-RPC error to answer a request with; raise it in a handler."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
