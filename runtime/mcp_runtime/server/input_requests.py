"""What a result asks of the client first goes in; nothing comes out, or a refusal where the client cannot be asked that."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, Protocol, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from ..encryption import InvalidTokenError, KeyRing, process_key_ring
from ..endpoint.checks import warn_about_secrets
from ..errors import InvalidMessageError, JSONRPCError
from ..protocol.capabilities import (
    MISSING_CAPABILITY_ERROR,
    Capabilities,
    capabilities_object,
    is_declared,
    parse_capability_path,
    satisfies,
)
from ..protocol.events import RequestReceived
from ..protocol.jsonrpc import INVALID_PARAMS, serialize
from ..protocol.models import format_validation_error, is_list, is_object, validator
from ..protocol.revision import InputRequest, Request, Revision
from ..session.interfaces import Channel, ChannelProxy
from ..session.options import RequestOptions


def check_input_required(revision: Revision, capabilities: Capabilities, result: object) -> None:
    """Raise the JSONRPCError that names what is missing, where an answer asks for what these capabilities do not have
    (2026: basic/patterns/mrtr, Server Requirements). Warns of forms that ask for secrets."""
    asks: Mapping[str, Any] | None = getattr(result, "input_requests", None)
    if not asks:
        return
    for ask in asks.values():
        warn_about_secrets(ask.params)
    rows = {row.method: row for row in revision.rows if isinstance(row, InputRequest)}
    check_input_requests(revision, capabilities, [(rows[ask.method], ask.params) for ask in asks.values()])


def check_input_requests(
    revision: Revision, capabilities: Capabilities, input_requests: Iterable[tuple[InputRequest[Any], object]]
) -> None:
    """The same, for questions that are given with their rows."""
    _raise_missing_capability(
        revision, [each for row, params in input_requests for each in _required_capabilities(row, params, capabilities)]
    )


def input_request_params(
    revision: Revision, capabilities: Capabilities, row: InputRequest[Any], params: dict[str, Any] | BaseModel
) -> dict[str, Any]:
    """Return the params of an input request as JSON. Raises InvalidMessageError if they do not fit the schema, and
    JSONRPCError if they need a capability that the client has not declared."""
    value: dict[str, Any] = from_json(serialize(params))
    try:
        model = validator(row.params)(value)
    except ValidationError as error:
        raise InvalidMessageError(f"{row.method!r}: params: {format_validation_error(error)} ({revision.id})") from None
    check_input_requests(revision, capabilities, [(row, model)])
    return value


def require_client_capabilities(revision: Revision, capabilities: Capabilities, required: Iterable[str]) -> None:
    """The same, for capabilities that are needed whatever is asked."""
    _raise_missing_capability(
        revision, [each for each in required if not is_declared(capabilities, parse_capability_path(each)[1])]
    )


def _raise_missing_capability(revision: Revision, required: list[str]) -> None:
    if required:
        what = ", ".join(dict.fromkeys(repr(each) for each in required))
        message = f"this needs {what}, which was not declared ({revision.id})"
        raise JSONRPCError(
            int(revision.constants[MISSING_CAPABILITY_ERROR]),
            message,
            {"requiredCapabilities": capabilities_object(required)},
        )


def _required_capabilities(row: InputRequest[Any], params: object, capabilities: Capabilities) -> Iterator[str]:
    """The capabilities that this question needs and the client has not declared."""
    if not is_declared(capabilities, parse_capability_path(row.capability)[1]):
        yield row.capability
    yield from (
        gate.capability for gate in row.requirements if gate.applies_to(params) and not satisfies(capabilities, gate)
    )


_LOOP_ITERATIONS: Final = 5  # Of the event loop, in which the tasks of a handler may add questions to the first.
_RETRY_PARAMS: Final = ("_meta", "inputResponses", "requestState")


class StateOwner(Protocol):
    """Whose handler it is: the keys it seals with, and whose request it takes one for."""

    @property
    def keys(self) -> KeyRing | None: ...

    def principal(self, ctx: Any) -> str: ...


class RequestOwner(Protocol):
    """The conversation whose request it is: `source` has the handler, and `outside` is a context of the request itself."""

    @property
    def origin(self) -> StateOwner: ...

    def request_context(self, channel: Channel, request: RequestReceived) -> Any: ...


class InputRequired(BaseException):
    """Ends a handler whose questions have no answers yet; no `except Exception` stops it."""


class _Round:
    """What is known of one round: what it asks, who waits for that, and what was found out before."""

    def __init__(self, state: dict[str, dict[str, Any]]) -> None:
        self.state = state
        self.input_requests: dict[str, dict[str, Any]] = {}
        self.counts: dict[str, int] = {}
        self.futures: list[asyncio.Future[Any]] = []


class MultiRoundTripRequest(ChannelProxy):
    """The conversation as the handler of one request has it: what it asks the client is asked by the answer."""

    __slots__ = ("_request", "_owner", "_round")

    def __init__(self, channel: Channel, request: RequestReceived, owner: RequestOwner) -> None:
        # Not by way of the base class, and no more than this: most handlers ask nothing.
        self._channel = channel
        self._request = request
        self._owner = owner
        self._round: _Round | None = None

    async def send_request(
        self,
        row: Request[Any] | InputRequest[Any],
        params: dict[str, Any] | BaseModel,
        options: RequestOptions,
    ) -> BaseModel:
        """The client's answer, once it has come back with it. Raises JSONRPCError for a capability it has not declared, and
        for an answer that is none."""
        if isinstance(row, Request):
            return await self._channel.send_request(row, params, options)
        value = input_request_params(self.connection.revision, self._context().capabilities, row, params)
        known = self._current_round()
        key, state = _input_request_key(known, row, value), known.state
        answer = state["answers"].get(key)
        if answer is None and key in state["asked"]:
            answer = self._responses().get(key)
        if answer is None:
            known.input_requests[key] = {"method": row.method, "params": value}
            return cast(BaseModel, await self._suspend(known))
        try:
            read: BaseModel = validator(cast(Any, row).result)(answer)
        except ValidationError as fault:
            raise JSONRPCError(
                INVALID_PARAMS, f"the answer to {key!r} is not what it may be: {format_validation_error(fault)}"
            ) from None
        state["answers"][key] = answer
        return read

    async def once(self, key: str, make: Callable[[], Any]) -> Any:
        """What `make` gave, as JSON, when this was first called for the request."""
        done = self._current_round().state["done"]
        if key not in done:
            made = make()
            done[key] = from_json(to_json(await made if inspect.isawaitable(made) else made))
        return done[key]

    def input_required_result(self, end: InputRequired | BaseExceptionGroup) -> Any:
        """The questions without which the handler, which has come to this end, cannot go on. Raises the rest of it."""
        if isinstance(end, BaseExceptionGroup) and end.split(InputRequired)[1] is not None:
            raise end
        known, interim = self._current_round(), self._request.row.input_required
        assert interim is not None, "only what can be answered with questions has rounds"
        state = {**known.state, "asked": dict.fromkeys(known.input_requests, True)}
        sealed = self._key_ring().encrypt(to_json(state), self._associated_data())
        said = {interim.property: interim.value, "inputRequests": known.input_requests, "requestState": sealed}
        return validator(interim.result)(said)

    # ---- waiting ------------------------------------------------------------------------------------------------------

    async def _suspend(self, round: _Round) -> Any:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Any] = loop.create_future()
        round.futures.append(waiting)
        if len(round.futures) == 1:
            self._raise_input_required(round, loop, _LOOP_ITERATIONS)
        return await waiting

    def _raise_input_required(self, round: _Round, loop: asyncio.AbstractEventLoop, turns: int) -> None:
        """End the handler, once its other tasks had their turns to ask as well."""
        if turns:
            loop.call_soon(self._raise_input_required, round, loop, turns - 1)
            return
        waiting, round.futures = round.futures, []
        for each in waiting:
            if not each.done():
                each.set_exception(InputRequired())

    # ---- what is handed back ------------------------------------------------------------------------------------------

    def _current_round(self) -> _Round:
        """What is known, with what earlier rounds found out. Raises JSONRPCError for a state that is not that of this request
        and user."""
        if self._round is None:
            state: dict[str, dict[str, Any]] = {"answers": {}, "done": {}, "asked": {}}
            sealed: str | None = getattr(self._request.params, "request_state", None)
            if sealed is not None:
                try:
                    state = from_json(self._key_ring().decrypt(sealed, self._associated_data()))
                except InvalidTokenError as why:
                    raise JSONRPCError(INVALID_PARAMS, f"the requestState is refused: {why}") from None
            self._round = _Round(state)
        return self._round

    def _responses(self) -> dict[str, Any]:
        found = self._request.params.model_dump().get("inputResponses")
        return found if is_object(found) else {}

    def _context(self) -> Any:
        return self._owner.request_context(self._channel, self._request)

    def _key_ring(self) -> KeyRing:
        return self._owner.origin.keys or process_key_ring()

    def _associated_data(self) -> bytes:
        """What a state is good for: one user, one method, the same params."""
        params = {name: each for name, each in self._request.params.model_dump().items() if name not in _RETRY_PARAMS}
        user = self._owner.origin.principal(self._context())
        return to_json([user, self.connection.revision.id, self._request.row.method, _digest(params)])


def _input_request_key(round: _Round, row: InputRequest[Any], value: dict[str, Any]) -> str:
    """The key of a question: the same for the same question in each round, whatever the order."""
    key = f"{row.name.removeprefix('on_')}-{_digest(value)[:12]}"
    count = round.counts[key] = round.counts.get(key, 0) + 1
    return key if count == 1 else f"{key}-{count}"


def _digest(value: object) -> str:
    return sha256(to_json(_sorted(value))).hexdigest()


def _sorted(value: Any) -> Any:
    if is_object(value):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if is_list(value) else value
