"""Compute the values of dependencies: each function once for a call, and its clean-up after the call."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final, TypeVar, cast, get_args, get_origin

from mcp_products.common.awaiting import call_plain, run_plain, watch
from mcp_runtime.aio.tasks import SharedLifespan
from mcp_runtime.errors import LocalError, ToolError
from mcp_runtime.server.context import ServerContext

from ..components.functions import HINT_ERRORS, code_of, is_required, signature_of
from .markers import CallArgument, ClientRequest, Dependency, Depends, Elicit, ListRoots, Sample, marker_of

# Find the dependencies of a function.


def dependencies_of(
    parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any], description: str
) -> Dependencies | None:
    """Return the dependencies of a function, None if it has none.

    Args:
        parameters: The parameters of the function.
        hints: Their type hints, with `Annotated`.
        description: What the function is, for errors.

    Raises LocalError for a marker in the wrong place, and for dependencies that cannot be called.
    """
    markers = {
        name: marker
        for name, parameter in parameters.items()
        if (marker := _marker(parameter, hints.get(name), description)) is not None
    }
    if not markers:
        return None

    arguments = {name for name in parameters if name not in markers}
    return Dependencies(markers, hints, arguments, description)


def _marker(parameter: inspect.Parameter, hint: Any, description: str) -> Dependency | None:
    marker = marker_of(parameter.default)
    if marker is not None or hint is None:
        return marker
    if get_origin(hint) is Annotated:
        base, *metadata = get_args(hint)
        markers = [marker for item in metadata if (marker := marker_of(item)) is not None]
        if len(markers) > 1:
            raise LocalError(f"{description}: the parameter {parameter.name!r} has two dependencies: remove one")
        if any(item is Depends or (isinstance(item, type) and issubclass(item, Dependency)) for item in metadata):
            raise LocalError(
                f"{description}: the parameter {parameter.name!r} names no function: write Depends(function)"
            )
        if markers:
            return markers[0]
        hint = base
    if _has_marker(hint):
        raise LocalError(
            f"{description}: the marker of the parameter {parameter.name!r} is inside of another type: "
            f"write Annotated[{_text(hint)}, Depends(function)]"
        )
    return None


def _has_marker(hint: Any) -> bool:
    inner = get_args(hint)
    if get_origin(hint) is Annotated:
        return any(marker_of(item) is not None for item in inner[1:]) or _has_marker(inner[0])
    return any(_has_marker(item) for item in inner)


def _text(hint: Any) -> str:
    """Return a type without its markers, as text."""
    return " | ".join(
        getattr(kind, "__name__", str(kind))
        for item in get_args(hint)
        for kind in [get_args(item)[0] if get_origin(item) is Annotated else item]
    ).replace("NoneType", "None")


# Requests to the client whose answers are the values of dependencies.

NodeT = TypeVar("NodeT")

# The classes of the results of `ctx.elicit`; a parameter of such a type takes the result itself.
_RESULTS: Final = frozenset({"AcceptedElicitation", "DeclinedElicitation", "CancelledElicitation"})


class PendingRequestError(Exception):
    """The value of a dependency waits for an answer of the client."""


class Answer:
    """The result of an elicitation, as the value of a dependency."""

    def __init__(self, result: Any) -> None:
        self.result = result


async def answers_of(ctx: ServerContext, requests: Mapping[NodeT, ClientRequest]) -> dict[NodeT, Any]:
    """Return the answers of the client.

    A stateless protocol version sends all requests in one result, another one sends them one after the other.
    """
    if len(requests) > 1 and ctx.multi_round_trip is not None:
        return dict(
            zip(requests, await asyncio.gather(*(_answer(ctx, request) for request in requests.values())), strict=True)
        )
    return {node: await _answer(ctx, request) for node, request in requests.items()}


async def _answer(ctx: Any, request: ClientRequest) -> Any:
    if isinstance(request, Elicit):
        elicit: Elicit[Any] = request  # pyright: ignore[reportUnknownVariableType]
        return Answer(await ctx.elicit(elicit.message, elicit.schema))
    if isinstance(request, Sample):
        return await _call(ctx, "create_message", request.arguments)
    assert isinstance(request, ListRoots), "there are no other requests"
    return await _call(ctx, "list_roots", {})


def _call(ctx: Any, method: str, arguments: Mapping[str, Any]) -> Any:
    """Call a method of the context without the warning that it is deprecated: the user's code does not call it."""
    return inspect.unwrap(getattr(ctx.__class__, method))(ctx, **arguments)


def unwrap(answer: Answer, parameter: str) -> Any:
    """Return the data of an accepted elicitation. Raises ToolError for a declined or cancelled one."""
    if answer.result.action != "accept":
        raise ToolError(f"{parameter} has no value: the elicitation has the action {answer.result.action!r}")
    return answer.result.data


def wants_result(hint: Any) -> bool:
    """Return True if a parameter takes the result of an elicitation, also a declined or cancelled one."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    alias = getattr(hint, "__value__", None) or getattr(get_origin(hint), "__value__", None)
    if alias is not None:  # A `type` alias, with or without arguments.
        hint = alias
    kinds = (hint, get_origin(hint), *(inner for item in get_args(hint) for inner in (item, get_origin(item))))
    return any(inspect.isclass(kind) and kind.__name__ in _RESULTS for kind in kinds)


Invoke = Callable[[dict[str, Any]], Awaitable[Any]]
_MISSING: Final = inspect.Parameter.empty


class _Node:
    """A function of the graph of dependencies, and where the values of its parameters come from."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function = function
        self.name = name
        self.description = f"the dependency {name!r}"
        code = code_of(function)
        self.is_async_generator = inspect.isasyncgenfunction(code)
        self.is_generator = inspect.isgeneratorfunction(code)
        self.is_async = inspect.iscoroutinefunction(code)
        self.context: str | None = None
        self.constants: dict[str, Any] = {}
        self.arguments: dict[str, str] = {}  # The name of the call's argument, by parameter.
        self.nested: dict[str, _Edge] = {}


@dataclass
class _Edge:
    """A parameter whose value a node computes. `wants_result` is True if it takes the answer of the user, declined and
    cancelled ones included."""

    node: _Node
    wants_result: bool


@dataclass
class _Call:
    """The state of one call."""

    ctx: ServerContext
    arguments: Mapping[str, Any]
    stack: AsyncExitStack
    values: dict[_Node, Any] = field(default_factory=dict[_Node, Any])
    pending: dict[_Node, ClientRequest] = field(default_factory=dict[_Node, ClientRequest])


class Dependencies:
    """The dependencies of one function; `names` are its parameters that are not arguments of clients."""

    def __init__(
        self, markers: Mapping[str, Dependency], hints: Mapping[str, Any], arguments: set[str], description: str
    ) -> None:
        """Inspect the functions. Raises LocalError if one depends on itself or has a parameter without a value.

        Args:
            markers: The markers by parameter.
            hints: The type hints of the function.
            arguments: The names of its other parameters.
            description: What the function is, for errors.
        """
        self.names = frozenset(markers)
        self._description = description
        self._arguments = arguments
        self._nodes: dict[Any, _Node] = {}
        self._roots = {
            name: _Edge(self._node(marker, ()), wants_result(hints.get(name))) for name, marker in markers.items()
        }

    async def call(self, invoke: Invoke, ctx: ServerContext, arguments: dict[str, Any]) -> Any:
        """Compute the values, call the function with them, and clean up."""
        failure: BaseException | None = None
        async with AsyncExitStack() as stack:
            try:
                values = await self._resolve(_Call(ctx, arguments, stack))
                return await invoke({**arguments, **values})
            except BaseException as error:
                failure = error
                raise
        # A generator has caught the exception and raised no other. There is no result, so it is raised again.
        assert failure is not None
        raise failure

    async def _resolve(self, call: _Call) -> dict[str, Any]:
        while True:
            values: dict[str, Any] = {}
            for name, edge in self._roots.items():
                try:
                    values[name] = await self._value(edge, name, call)
                except PendingRequestError:
                    continue  # The others may have requests as well, which are sent together.
            if not call.pending:
                return values
            call.values |= await answers_of(call.ctx, call.pending)
            call.pending.clear()

    async def _value(self, edge: _Edge, parameter: str, call: _Call) -> Any:
        """Return the value of a parameter. Raises PendingRequestError if it waits for the client."""
        node = edge.node
        if node not in call.values:
            await self._run(node, call)
        value = call.values[node]
        if isinstance(value, Answer) and not edge.wants_result:
            return unwrap(value, f"{self._description}: the parameter {parameter!r}")
        return value.result if isinstance(value, Answer) else value

    async def _run(self, node: _Node, call: _Call) -> None:
        if node in call.pending:
            raise PendingRequestError
        values: dict[str, Any] = {**node.constants}
        if node.context is not None:
            values[node.context] = call.ctx
        values |= {name: call.arguments[argument] for name, argument in node.arguments.items()}
        waits = False
        for name, edge in node.nested.items():
            try:
                values[name] = await self._value(edge, name, call)
            except PendingRequestError:
                waits = True
        if waits:
            raise PendingRequestError
        value = await _enter(node, values, call.stack)
        if isinstance(value, ClientRequest):
            call.pending[node] = value
            raise PendingRequestError
        call.values[node] = value

    # ---- declaration ------------------------------------------------------------------------------------------------

    def _node(self, marker: Dependency, path: tuple[Any, ...]) -> _Node:
        """Return the node of a function, the same one for the same function and bindings."""
        function = marker.function
        key = (_identity(function), tuple((name, _identity(value)) for name, value in sorted(marker.bindings.items())))
        name = _name_of(function)
        if key in path:
            raise LocalError(f"{self._description}: the dependency {name!r} depends on itself: remove one of its own")
        if key in self._nodes:
            return self._nodes[key]
        node = _Node(function, name)
        parameters = self._parameters(function, name)
        if unknown := marker.bindings.keys() - parameters.keys():
            raise LocalError(
                f"{self._description}: the dependency {name!r} has no parameter {sorted(unknown)[0]!r}; it has "
                + (", ".join(map(repr, parameters)) or "none")
            )
        for parameter in parameters.values():
            bound = marker.bindings.get(parameter.name, _MISSING)
            self._bind(node, parameter, bound, (*path, key))
        self._nodes[key] = node
        return node

    def _bind(self, node: _Node, parameter: inspect.Parameter, bound: Any, path: tuple[Any, ...]) -> None:
        name = parameter.name
        hint = None if parameter.annotation is parameter.empty else parameter.annotation
        argument = (bound.name or name) if isinstance(bound, CallArgument) else name
        marker = marker_of(bound) or (_declared(parameter, hint) if bound is _MISSING else None)
        if marker is not None:
            node.nested[name] = _Edge(self._node(marker, path), wants_result(hint))
        elif bound is not _MISSING and not isinstance(bound, CallArgument):
            node.constants[name] = bound
        elif is_context(hint):
            node.context = name
        elif argument in self._arguments:
            node.arguments[name] = argument
        elif is_required(parameter) or isinstance(bound, CallArgument):
            raise LocalError(
                f"{self._description}: the parameter {argument!r} of the dependency {node.name!r} has no value: "
                "give it a default, Depends(…), the type Context, or the name of an argument"
            )
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise LocalError(
                f"{self._description}: the parameter {name!r} of the dependency {node.name!r} must accept a keyword"
            )

    def _parameters(self, function: Callable[..., Any], name: str) -> dict[str, inspect.Parameter]:
        try:
            return dict(signature_of(function).parameters)
        except ValueError:  # A class or function in C without a signature: it is called without arguments.
            return {}
        except HINT_ERRORS as error:
            raise LocalError(
                f"{self._description}: a type hint of the dependency {name!r} cannot be evaluated: {error}"
            ) from None


async def _enter(node: _Node, values: dict[str, Any], stack: AsyncExitStack) -> Any:
    """Return the value of a function; its clean-up is added to the stack."""
    if node.is_async_generator:
        return await stack.enter_async_context(asynccontextmanager(node.function)(**values))
    if node.is_generator:
        twins = {name: watch(value) for name, value in values.items()}
        manager = contextmanager(node.function)(**twins)
        return await stack.enter_async_context(_in_threads(manager, twins.values(), node.description))
    if node.is_async:
        value = await node.function(**values)
    else:
        value = await call_plain(node.function, node.description, values, True)
    if isinstance(value, AbstractAsyncContextManager):
        return await stack.enter_async_context(cast("AbstractAsyncContextManager[Any]", value))
    if isinstance(value, AbstractContextManager):
        return await stack.enter_async_context(
            _in_threads(cast("AbstractContextManager[Any]", value), (), node.description)
        )
    return value


async def enter_function(function: Callable[..., Any], stack: AsyncExitStack) -> Any:
    """Return the value of a function without parameters; its clean-up is added to the stack."""
    return await _enter(_Node(function, _name_of(function)), {}, stack)


@asynccontextmanager
async def _in_threads(
    manager: AbstractContextManager[Any], arguments: Collection[Any], description: str
) -> AsyncGenerator[Any]:
    """Enter and exit a context manager, the function of which has these arguments, in worker threads."""
    value = await run_plain(manager.__enter__, arguments, description)
    try:
        yield value
    except BaseException as error:
        leave = partial(manager.__exit__, type(error), error, error.__traceback__)
        if not await run_plain(leave, arguments, description):
            raise
    else:
        await run_plain(partial(manager.__exit__, None, None, None), arguments, description)


def _declared(parameter: inspect.Parameter, hint: Any) -> Dependency | None:
    """Return the marker of a parameter, of its default or of its type hint."""
    metadata = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((marker for item in (parameter.default, *metadata) if (marker := marker_of(item)) is not None), None)


def is_context(hint: Any) -> bool:
    """Return True for a context class, also with type parameters, and in a union or Annotated."""
    classes = (get_origin(kind) or kind for kind in (hint, *get_args(hint)))
    return any(isinstance(kind, type) and issubclass(kind, ServerContext) for kind in classes)


def _name_of(function: Callable[..., Any]) -> str:
    name: object = getattr(code_of(function), "__qualname__", None) or type(function).__name__
    return str(name).rpartition("<locals>.")[2]


def _identity(value: Any) -> Any:
    """Return a key for a function or a bound value: bound methods and simple values are compared by their value."""
    if isinstance(value, Dependency):
        return "marker", _identity(value.function), tuple((k, _identity(v)) for k, v in sorted(value.bindings.items()))
    if isinstance(value, CallArgument):
        return "argument", value.name
    if inspect.isroutine(value) or isinstance(value, (str, int, float, bool, bytes, type(None))):
        return type(value), value
    return "id", id(value)


# Dependencies whose values all calls share: computed once, cleaned up when the app's lifespan ends.

SHARED_VALUES: Final = "shared values"
"""The key of the shared values in what the lifespan of an app's server yields."""


class SharedValues:
    """The values of shared dependencies in one lifespan, by function."""

    def __init__(self) -> None:
        self._lifespans: dict[Callable[..., Any], SharedLifespan] = {}

    async def get(self, function: Callable[..., Any]) -> Any:
        """Return the value of a function; call it if it has none yet. A call that fails is repeated by the next one."""
        lifespan = self._lifespans.get(function)
        if lifespan is None:
            lifespan = self._lifespans[function] = SharedLifespan(lambda: _entered(function))
        try:
            return await lifespan.state()
        except Exception:
            self._lifespans.pop(function, None)
            raise

    async def close(self) -> None:
        """Clean up, the newest value first."""
        while self._lifespans:
            _, lifespan = self._lifespans.popitem()
            await lifespan.end()


def Shared(function: Callable[..., Any], /) -> Any:
    """Declare that a function computes the value of a parameter once for all calls, such as a pool of connections.

    The function is called at the first use. The clean-up of a generator or a context manager runs when the app ends.

    Args:
        function: A function without parameters: a `def`, an `async def`, a generator or a context manager.

    Raises LocalError if `function` is not callable, or if it has a parameter without a default.
    """
    if not callable(function):
        raise LocalError(f"Shared({function!r}): the argument is not callable; pass a function, not its result")
    for parameter in signature_of(function, hints=False).parameters.values():
        if is_required(parameter):
            raise LocalError(
                f"Shared(): the parameter {parameter.name!r} of the function has no value, because no single call has"
                " one for all: give it a default, or write Depends(…)"
            )

    async def value(ctx: ServerContext) -> Any:
        states = ctx.connection_state.state
        if SHARED_VALUES not in states:
            states[SHARED_VALUES] = SharedValues()
        return await states[SHARED_VALUES].get(function)

    return Depends(value)


@asynccontextmanager
async def _entered(function: Callable[..., Any]) -> AsyncGenerator[Any]:
    async with AsyncExitStack() as stack:
        yield await enter_function(function, stack)
