"""The markers of dependencies, and the requests to the client that a dependency can return."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

from mcp_runtime.endpoint.context import Watched
from mcp_runtime.errors import LocalError, ToolError
from mcp_runtime.server.context import ServerContext

if TYPE_CHECKING:
    from pydantic import BaseModel

R = TypeVar("R")
ModelT = TypeVar("ModelT", bound="BaseModel")


class Dependency:
    """The marker of a parameter whose value a function of the server computes; `Depends` and `Resolve` make it."""

    def __init__(self, function: Callable[..., Any], /, **bindings: Any) -> None:
        """Create a marker. Raises LocalError if `function` is not callable.

        Args:
            function: The function that computes the value.
            bindings: Values of its parameters; a `Depends` or `CallArgument` among them is resolved first.
        """
        if not callable(function):
            name = type(self).__name__ if type(self) is not Dependency else "Depends"
            raise LocalError(f"{name}({function!r}): the argument is not callable; pass a function, not its result")
        self.function = function
        self.bindings: Mapping[str, Any] = bindings


class Resolve(Dependency):
    """A dependency as the official SDK writes it: `Annotated[T, Resolve(function)]`.

    The function may have parameters with the names of the tool's arguments, a Context and further dependencies. It
    returns the value, or `Elicit`, `Sample` or `ListRoots` to request it from the client.
    """

    def __init__(self, function: Callable[..., Any], /) -> None:
        """Create the marker of a parameter. Raises LocalError if `function` is not callable."""
        super().__init__(function)


class CallArgument:
    """An argument of the call, for a parameter of a dependency: `Depends(user, id=CallArgument("owner"))`."""

    def __init__(self, name: str | None = None) -> None:
        """Name the argument; by default it has the name of the parameter that it is bound to."""
        self.name: Final = name


@overload
def Depends(function: Callable[..., AbstractAsyncContextManager[R]], /, **bindings: Any) -> R: ...
@overload
def Depends(function: Callable[..., AbstractContextManager[R]], /, **bindings: Any) -> R: ...
@overload
def Depends(function: Callable[..., AsyncGenerator[R, Any]], /, **bindings: Any) -> R: ...
@overload
def Depends(function: Callable[..., AsyncIterator[R]], /, **bindings: Any) -> R: ...
@overload
def Depends(function: Callable[..., Generator[R, Any, Any]], /, **bindings: Any) -> R: ...
@overload
def Depends(function: Callable[..., Iterator[R]], /, **bindings: Any) -> R: ...
@overload
def Depends(function: Callable[..., Awaitable[R]], /, **bindings: Any) -> R: ...
@overload
def Depends(function: Callable[..., R], /, **bindings: Any) -> R: ...
def Depends(function: Callable[..., Any], /, **bindings: Any) -> Any:
    """Declare that a function computes the value of a parameter.

    Write `db: Database = Depends(connect)`, or `Annotated[Database, Depends(connect)]`. The function is a `def`, which
    runs in a worker thread, an `async def`, a generator or a context manager, whose clean-up runs after the call, also
    if the call fails or is cancelled. It is called once for a call, and may have dependencies itself, a parameter of
    type Context, and parameters with the names of the tool's arguments. The parameter is not an argument for clients.

    Args:
        function: The function.
        bindings: Values of its parameters; a `Depends` or `CallArgument` among them is resolved first.

    Raises LocalError if `function` is not callable.
    """
    return Dependency(function, **bindings)


class ClientRequest:
    """The base of what a dependency returns to request its value from the client."""


class Elicit(ClientRequest, Generic[ModelT]):
    """Return it from a dependency to ask the user for the value: a form with the fields of a model."""

    def __init__(self, message: str, schema: type[ModelT]) -> None:
        """Create the request.

        Args:
            message: The text for the user.
            schema: The Pydantic model of the answer.
        """
        self.message = message
        self.schema = schema


@dataclass(eq=False)
class Sample(ClientRequest):
    """Return it from a dependency to sample the value from the client's model: the value is a CreateMessageResult.

    The arguments are those of `ctx.create_message`.
    """

    messages: Sequence[Any]
    _: KW_ONLY
    max_tokens: int
    system_prompt: str | None = None
    include_context: str | None = None
    temperature: float | None = None
    stop_sequences: Sequence[str] | None = None
    metadata: Mapping[str, Any] | None = None
    model_preferences: Any = None
    tools: Sequence[Any] | None = None
    tool_choice: Any = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that are set."""
        present = {name: value for name, value in vars(self).items() if value is not None}
        return {**present, "messages": list(self.messages)}


class ListRoots(ClientRequest):
    """Return it from a dependency to get the roots of the client: the value is a ListRootsResult."""


def marker_of(value: object) -> Dependency | None:
    """Return the marker that a default or an item of `Annotated` is; None for another value."""
    return value if isinstance(value, Dependency) else None


# Dependencies that give a function something of its request: the context, the HTTP request, the access token.


def CurrentContext() -> Any:
    """Inject the context of the request; a parameter with the annotation `Context` gets it as well."""
    return Depends(_context)


def CurrentFastMCP() -> Any:
    """Inject the app that serves the request; the same as `ctx.app`."""
    return Depends(_app)


def CurrentRequest() -> Any:
    """Inject the HTTP request with its headers; the call fails over stdio, which has none."""
    return Depends(_request)


def CurrentHeaders() -> Any:
    """Inject the headers of the HTTP request; an empty dict over stdio."""
    return Depends(_headers)


def CurrentAccessToken() -> Any:
    """Inject the user of the access token, an AuthenticatedUser; the call fails without authentication."""
    return Depends(_user)


def TokenClaim(name: str) -> Any:
    """Inject a claim of the access token; the call fails without authentication, or if the token lacks the claim.

    Args:
        name: The name of the claim, such as "sub".
    """
    return Depends(_claim, name=name)


async def _context(ctx: ServerContext) -> ServerContext:
    return ctx


async def _app(ctx: ServerContext) -> Any:
    return getattr(ctx, "app", None)


async def _request(ctx: ServerContext) -> Any:
    request = getattr(ctx, "request", None)
    if request is None:
        raise ToolError("this call has no HTTP request: the server is not used over HTTP")
    return request


async def _headers(ctx: ServerContext) -> Any:
    return getattr(ctx, "headers", None) or {}


async def _user(ctx: ServerContext) -> Any:
    if ctx.user is None:
        raise ToolError("this call has no access token: the server is used without authentication")
    return ctx.user


async def _claim(ctx: ServerContext, name: str) -> Any:
    claims = (await _user(ctx)).claims
    if name not in claims:
        raise ToolError(f"the access token has no claim {name!r}")
    return claims[name]


# The progress of a call as a dependency: it counts, and sends progress notifications.


class ProgressCounter(Watched, Dependency):
    """The progress of a call: write `progress: Progress = Progress()` as a parameter.

    Each call gets a counter of its own. A change sends a progress notification, if the client has requested progress.
    """

    def __init__(self, *, ctx: ServerContext | None = None) -> None:
        """Create the marker of a parameter; the runtime creates the counters of calls, with their context."""
        super().__init__(_counter_of)
        self._ctx = ctx
        self._current: float | None = None
        self._total: float | None = None
        self._message: str | None = None

    @property
    def current(self) -> float | None:
        """The progress so far; None before the first step."""
        return self._current

    @property
    def total(self) -> float:
        """The progress at the end; 1 until it is set."""
        return 1 if self._total is None else self._total

    @property
    def message(self) -> str | None:
        """The text for the user; None if there is none."""
        return self._message

    async def set_total(self, total: float) -> None:
        """Set the progress at the end. Raises LocalError if it is not above 0."""
        if total <= 0:
            raise LocalError(f"Progress.set_total({total!r}): the total must be above 0")
        self._total = total

    async def increment(self, amount: float = 1) -> None:
        """Add to the progress. Raises LocalError if the amount is not above 0."""
        if amount <= 0:
            raise LocalError(f"Progress.increment({amount!r}): progress must grow: pass an amount above 0")
        self._current = (self._current or 0) + amount
        await self._report(self._current)

    async def set_message(self, message: str | None) -> None:
        """Set the text for the user; clients get it with the next step."""
        self._message = message

    async def _report(self, progress: float) -> None:
        if self._ctx is None:
            raise LocalError("Progress() is a dependency: write it as the default of a tool's parameter")
        await self._ctx.progress(progress, self._total, self._message)


async def _counter_of(ctx: ServerContext) -> Any:
    return ProgressCounter(ctx=ctx)


Progress = ProgressCounter
