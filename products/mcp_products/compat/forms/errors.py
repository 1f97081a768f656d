"""JSON-RPC errors as the official SDK has them: one class for those that are raised and those that are received."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Self

from pydantic import BaseModel

from mcp_runtime.errors import (
    ConnectionClosedError,
    JSONRPCError,
    LocalError,
    MCPError,
    RemoteJSONRPCError,
    RequestTimeoutError,
)
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS

from .form import FORM, written

URL_ELICITATION_REQUIRED: Final = -32042
REQUEST_TIMEOUT: Final = 408
CONNECTION_CLOSED: Final = -32000


class ErrorFields(NamedTuple):
    """The fields of a JSON-RPC error."""

    code: int
    message: str
    data: Any = None


class ResourceError(JSONRPCError):
    """An error of a resource whose text the client gets, as FastMCP has it."""

    def __init__(self, message: str = "", data: Any = None) -> None:
        """Create the error, with the JSON-RPC code for internal errors."""
        super().__init__(INTERNAL_ERROR, message, data)


class ResourceNotFoundError(JSONRPCError):
    """There is no resource with a URI that matches a template: clients get the code for invalid params."""

    def __init__(self, message: str = "", data: Any = None) -> None:
        """Create the error."""
        super().__init__(INVALID_PARAMS, message, data)


class PromptError(ResourceError):
    """An error of a prompt whose text the client gets, as FastMCP has it."""


class McpError(JSONRPCError):
    """A JSON-RPC error that a handler raises, or that a session has received."""

    def __init__(self, code: Any = None, message: str = "", data: Any = None, *, error: Any = None) -> None:
        """Create the error.

        Args:
            code: The JSON-RPC error code, or an `ErrorData` with all three values, as in the last 1.x.
            message: A short description for the peer.
            data: Further JSON information for the peer.
            error: The `ErrorData` by the name that it has in the last 1.x.
        """
        code = error or code
        if not isinstance(code, int):
            code, message, data = code.code, code.message, getattr(code, "data", None)
        super().__init__(code, message, data)

    @property
    def error(self) -> Any:
        """The fields of the error, as `ErrorData`."""
        return FORM.types.ErrorData(code=self.code, message=self.message, data=self.data)

    @error.setter
    def error(self, fields: Any) -> None:
        vars(self).update(code=fields.code, message=fields.message, data=fields.data)

    @classmethod
    def from_error_data(cls, error: Any) -> McpError:
        """Return the error of an `ErrorData`."""
        return McpError(error.code, error.message, error.data)


class UrlElicitationRequiredError(McpError):
    """Raise it in a handler: the client must complete these URL elicitations before it sends the request again."""

    def __init__(self, elicitations: Sequence[BaseModel], message: str | None = None) -> None:
        """Create the error.

        Args:
            elicitations: The params of the elicitations, `ElicitRequestURLParams`.
            message: A short description for the peer.
        """
        self.elicitations = list(elicitations)
        fields = [item.model_dump(mode="json", by_alias=True, exclude_none=True) for item in elicitations]
        super().__init__(URL_ELICITATION_REQUIRED, message or "URL elicitation required", {"elicitations": fields})

    @classmethod
    def from_error(cls, error: Any) -> Self:
        """Return the error of received fields. Raises ValueError for an error with another code."""
        if error.code != URL_ELICITATION_REQUIRED:
            raise ValueError(f"the code is {error.code}, not {URL_ELICITATION_REQUIRED}")
        data: dict[str, list[Any]] = error.data or {}
        elicitations = [FORM.types.ElicitRequestURLParams.model_validate(item) for item in data.get("elicitations", [])]
        return cls(elicitations, error.message)


class MCPDeprecationWarning(UserWarning):
    """The warning of 2.x for what is deprecated, for filters that name it. Here DeprecationWarning says so."""


def failure(code: int, message: str, data: Any = None) -> dict[str, Any]:
    """Return the error of a JSON-RPC message as JSON."""
    value = written(data) if isinstance(data, BaseModel) else data
    return {"error": {"code": code, "message": message} | ({} if value is None else {"data": value})}


def timed_out(method: str, timeout: float | None) -> McpError:
    """Return the error for a request that got no response in time, with the code that the form has for it."""
    code = getattr(FORM.types, "REQUEST_TIMEOUT", REQUEST_TIMEOUT)
    return McpError(code, f"Timed out while waiting for the response to {method!r}. Waited {timeout} seconds.")


@contextmanager
def received_errors() -> Generator[None]:
    """Raise McpError for a JSON-RPC error that the peer has sent, a request that timed out, and a closed connection."""
    try:
        yield
    except RemoteJSONRPCError as error:
        raise McpError(error.code, error.message, error.data) from error
    except RequestTimeoutError as error:
        raise McpError(REQUEST_TIMEOUT, str(error)) from error
    except ConnectionClosedError as error:
        raise McpError(CONNECTION_CLOSED, f"Connection closed: {error}") from error


# Exceptions of FastMCP that no product raises under another name.


class ValidationError(MCPError, ValueError):
    """Arguments are missing, or do not fit."""


class ResourceSecurityError(ResourceNotFoundError):
    """A value of a variable of a template is refused; the client is told that there is no such resource."""


@contextmanager
def as_value_errors() -> Generator[None]:
    """Raise ValueError, as FastMCP does, for what a product refuses."""
    try:
        yield
    except LocalError as error:
        raise ValueError(str(error)) from error
