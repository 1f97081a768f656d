"""Multi round-trip requests of a server: send the requests of a handler to the client as input requests of its result.

MCP specification, https://modelcontextprotocol.io/specification/draft/basic/patterns/mrtr
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from pydantic_core import ValidationError, from_json, to_json

from ..endpoint.checks import warn_about_changed_requests, warn_about_secrets
from ..errors import InvalidMessageError, JSONRPCError, UnwritableValueError
from ..protocol.connection import RequestReceived
from ..protocol.jsonrpc import INVALID_PARAMS, serialize
from ..protocol.lifecycle import (
    MISSING_CAPABILITY_ERROR,
    Capabilities,
    capabilities_object,
    is_declared,
    parse_capability_path,
    satisfies,
)
from ..protocol.models import format_validation_error, is_list, is_object, plain_of, validator
from ..protocol.revision import InputRequest, Request, Revision
from ..session.interfaces import Channel, ChannelProxy
from ..session.requests import RequestOptions
from .state_tokens import InvalidTokenError, StateKeys, process_keys

if TYPE_CHECKING:
    from pydantic import BaseModel

_LOOP_ITERATIONS: Final = 5  # Iterations of the event loop in which other tasks of a handler can add input requests.
_RETRY_PARAMS: Final = ("_meta", "inputResponses", "requestState")


def check_input_required(revision: Revision, capabilities: Capabilities, result: object) -> None:
    """Check the input requests of a result against the capabilities that the client has declared.

    Log a warning for forms that request secrets. See
    https://modelcontextprotocol.io/specification/draft/basic/patterns/mrtr#server-requirements

    Raises JSONRPCError that names the missing capabilities.
    """
    input_requests: Mapping[str, Any] | None = getattr(result, "input_requests", None)
    if not input_requests:
        return
    for input_request in input_requests.values():
        warn_about_secrets(input_request.params)
    rows = {row.method: row for row in revision.rows if isinstance(row, InputRequest)}
    check_input_requests(
        revision,
        capabilities,
        [(rows[input_request.method], input_request.params) for input_request in input_requests.values()],
    )


def check_input_requests(
    revision: Revision, capabilities: Capabilities, input_requests: Iterable[tuple[InputRequest[Any], object]]
) -> None:
    """Raise JSONRPCError with the capabilities that input requests, with their rows and params, miss of the client."""
    missing = [name for row, params in input_requests for name in _missing_capabilities(row, params, capabilities)]
    _raise_missing_capabilities(revision, missing)


def input_request_params(
    revision: Revision, capabilities: Capabilities, row: InputRequest[Any], params: dict[str, Any] | BaseModel
) -> dict[str, Any] | None:
    """Return the params of an input request as JSON; None if they are empty, and the schema allows only absent ones.
    Raises InvalidMessageError if they do not fit the schema, and JSONRPCError for an undeclared capability."""
    try:
        value: dict[str, Any] | None = from_json(serialize(params))
        model = validator(row.params)(value)
    except ValueError as error:
        if not isinstance(error, ValidationError):
            raise UnwritableValueError(f"{row.method!r}: params: {error} ({revision.id})") from None
        if params or row.params_required:
            reason = format_validation_error(error)
            raise InvalidMessageError(f"{row.method!r}: params: {reason} ({revision.id})") from None
        value = model = None
    check_input_requests(revision, capabilities, [(row, model)])
    return value


def require_client_capabilities(revision: Revision, capabilities: Capabilities, required: Iterable[str]) -> None:
    """Raise JSONRPCError if the client has not declared one of these capabilities."""
    missing = [
        capability for capability in required if not is_declared(capabilities, parse_capability_path(capability)[1])
    ]
    _raise_missing_capabilities(revision, missing)


def _raise_missing_capabilities(revision: Revision, missing: list[str]) -> None:
    if missing:
        names = ", ".join(dict.fromkeys(repr(capability) for capability in missing))
        raise JSONRPCError(
            int(revision.constants.get(MISSING_CAPABILITY_ERROR, INVALID_PARAMS)),
            f"the request requires the capability {names}, which the client has not declared ({revision.id})",
            {"requiredCapabilities": capabilities_object(missing)},
        )


def _missing_capabilities(row: InputRequest[Any], params: object, capabilities: Capabilities) -> Iterator[str]:
    """Yield the capabilities that an input request requires and the client has not declared."""
    if not is_declared(capabilities, parse_capability_path(row.capability)[1]):
        yield row.capability
    yield from (
        requirement.capability
        for requirement in row.requirements
        if requirement.applies_to(params) and not satisfies(capabilities, requirement)
    )


class StateOwner(Protocol):
    """The server of a handler: its keys, and the user of a request."""

    @property
    def keys(self) -> StateKeys | None:
        """The keys that encrypt `requestState`; None for keys of this process."""
        ...

    def principal(self, ctx: Any) -> str:
        """Return the id of the user that `requestState` belongs to."""
        ...


class RequestOwner(Protocol):
    """The dispatcher that a request belongs to."""

    @property
    def origin(self) -> StateOwner:
        """The server whose handler runs."""
        ...

    def request_context(self, channel: Channel, request: RequestReceived) -> Any:
        """Return the context of a request."""
        ...


class InputRequired(BaseException):
    """Stops a handler until the client has answered its input requests. A BaseException: `except Exception` does not
    catch it."""


class _Round:
    """The state of one round.

    Attributes:
        state: The decrypted `requestState`: responses, values of `once`, and keys of the requested input.
        input_requests: The input requests of this round, by key.
        keys: The keys of all input requests of this round, also of those that were answered.
        counts: How many input requests of this round have the same key.
        futures: The futures of the handler's tasks that wait for a response.
    """

    def __init__(self, state: dict[str, dict[str, Any]]) -> None:
        self.state = state
        self.input_requests: dict[str, dict[str, Any]] = {}
        self.counts: dict[str, int] = {}
        self.keys: set[str] = set()
        self.futures: list[asyncio.Future[Any]] = []


class MultiRoundTripRequest(ChannelProxy):
    """The channel of a handler whose requests to the client become input requests of its result.

    The first run of the handler stops at its first request to the client. The result carries all input requests, and
    an encrypted `requestState`. The client sends the request again with its responses, and the handler runs again.
    """

    __slots__ = ("_request", "_owner", "_round")

    def __init__(self, channel: Channel, request: RequestReceived, owner: RequestOwner) -> None:
        """Create the channel of one request.

        Args:
            channel: The channel of the connection.
            request: The request that the handler serves.
            owner: The dispatcher, which has the keys and the contexts.
        """
        # `super().__init__` is not called, and the round is created on first use, because this runs for every request.
        self._channel = channel
        self._request = request
        self._owner = owner
        self._round: _Round | None = None

    async def send_request(
        self, row: Request[Any] | InputRequest[Any], params: dict[str, Any] | BaseModel, options: RequestOptions
    ) -> BaseModel:
        """Return the client's response to an input request; stop the handler if there is none yet.

        Raises JSONRPCError if the client has not declared a required capability, or if its response is invalid.
        """
        if isinstance(row, Request):
            return await self._channel.send_request(row, params, options)
        value = input_request_params(self.connection.revision, self._context().capabilities, row, params)
        current = self._current_round()
        key, state = _input_request_key(current, row, _of_schema(row, value)), current.state
        current.keys.add(key)
        response = state["responses"].get(key)
        if response is None and key in state["requested"]:
            response = self._responses().get(key)
        if response is None:
            current.input_requests[key] = {"method": row.method} | ({} if value is None else {"params": value})
            return cast("BaseModel", await self._suspend(current))
        try:
            result: BaseModel = validator(cast(Any, row).result)(response)
        except ValidationError as error:
            text = f"the input response {key!r} is invalid: {format_validation_error(error)}"
            raise JSONRPCError(INVALID_PARAMS, text) from None
        state["responses"][key] = response
        return result

    async def once(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the first result of `make` for this request, as JSON; later rounds do not call it again."""
        values = self._current_round().state["values"]
        if key not in values:
            value = make()
            values[key] = from_json(to_json(await value if inspect.isawaitable(value) else value))
        return values[key]

    @property
    def values(self) -> dict[str, Any]:
        """The values of this request that `requestState` carries to its later rounds."""
        return self._current_round().state["values"]

    def is_repeated(self, kind: str) -> bool:
        """Return True if an earlier round of this request has done this already; call it once for each time.

        Args:
            kind: What is done, such as "log": the calls of one kind are counted.
        """
        current = self._current_round()
        count = current.counts[kind] = current.counts.get(kind, 0) + 1
        if count <= current.state["values"].get(kind, 0):
            return True
        current.state["values"][kind] = count
        return False

    def input_required_result(self, error: InputRequired | BaseExceptionGroup) -> Any:
        """Return the result that carries the input requests of a handler that was stopped by this error.

        Raises the error itself if it is a group with other exceptions.
        """
        if isinstance(error, BaseExceptionGroup) and error.split(InputRequired)[1] is not None:
            raise error
        current, interim = self._current_round(), self._request.row.input_required
        assert interim is not None, "only methods with an interim result have rounds"
        warn_about_changed_requests(self._request.row.method, current.state["requested"].keys() - current.keys)
        result = {
            interim.property: interim.value,
            "inputRequests": current.input_requests,
            "requestState": self.encrypted_state(),
        }
        return validator(interim.result)(result)

    # ---- input requests ----------------------------------------------------------------------------------------------

    async def _suspend(self, current: _Round) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        current.futures.append(future)
        if len(current.futures) == 1:
            self._raise_input_required(current, loop, _LOOP_ITERATIONS)
        return await future

    def _raise_input_required(self, current: _Round, loop: asyncio.AbstractEventLoop, iterations: int) -> None:
        """Stop the handler after some iterations of the loop, in which its other tasks can add input requests."""
        if iterations:
            loop.call_soon(self._raise_input_required, current, loop, iterations - 1)
            return
        futures = current.futures
        current.futures = []
        for future in futures:
            if not future.done():
                future.set_exception(InputRequired())

    # ---- requestState ------------------------------------------------------------------------------------------------

    def encrypted_state(self) -> str:
        """Return the `requestState` for the next round."""
        current = self._current_round()
        state = {**current.state, "requested": dict.fromkeys(current.input_requests, True)}
        return self._key_ring().encrypt(to_json(state), self._associated_data())

    def _current_round(self) -> _Round:
        """Return the current round, with the state of earlier rounds.

        Raises JSONRPCError if `requestState` does not belong to this request and user.
        """
        if self._round is None:
            state: dict[str, dict[str, Any]] = {"responses": {}, "values": {}, "requested": {}}
            encrypted: str | None = getattr(self._request.params, "request_state", None)
            if encrypted is not None:
                try:
                    state = from_json(self._key_ring().decrypt(encrypted, self._associated_data()))
                except InvalidTokenError as error:
                    raise JSONRPCError(INVALID_PARAMS, f"the requestState is invalid: {error}") from None
            self._round = _Round(state)
        return self._round

    def _responses(self) -> dict[str, Any]:
        responses = plain_of(self._request.params).get("inputResponses")
        return responses if is_object(responses) else {}

    def _context(self) -> Any:
        return self._owner.request_context(self._channel, self._request)

    def _key_ring(self) -> StateKeys:
        return self._owner.origin.keys or process_keys()

    def _associated_data(self) -> bytes:
        """Return what a `requestState` is bound to: the user, the protocol version, the method and the params."""
        fields = plain_of(self._request.params)
        params = {name: value for name, value in fields.items() if name not in _RETRY_PARAMS}
        user = self._owner.origin.principal(self._context())
        return to_json([user, self.connection.revision.id, self._request.row.method, _digest(params)])


def _input_request_key(current: _Round, row: InputRequest[Any], params: dict[str, Any]) -> str:
    """Return the key of an input request: a hash of its params, so that it is the same in every round."""
    key = f"{row.name.removeprefix('on_')}-{_digest(params)[:12]}"
    count = current.counts[key] = current.counts.get(key, 0) + 1
    return key if count == 1 else f"{key}-{count}"


def _of_schema(row: InputRequest[Any], params: dict[str, Any] | None) -> dict[str, Any]:
    """Return the params without properties that the schema does not have, such as an `elicitationId` of earlier
    versions, which is new in every round."""
    if params is None:
        return {}
    model: BaseModel = validator(cast(Any, row).params)(params)
    names = {field.alias or name for name, field in type(model).__pydantic_fields__.items()}
    return {name: value for name, value in params.items() if name in names}


def _digest(value: object) -> str:
    return sha256(to_json(_sorted(value))).hexdigest()


def _sorted(value: Any) -> Any:
    if is_object(value):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if is_list(value) else value
