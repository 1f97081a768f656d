"""A request goes in whose handler may ask the client; out comes its answer, or what the client has to find out before it
asks again (2026: basic/patterns/mrtr)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final, Protocol, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from ..errors import InvalidMessage, Refusal
from ..exchange import OnProgress
from ..jsonrpc import INVALID_PARAMS, json_of
from ..peer import Asked
from ..seams import Passing, Speaker
from ..spec import InputRequest, Request
from ..wire import complaint, is_list, is_object, reader
from .questions import check_asked
from .sealing import KeyRing, Unsealable, own_ring

_TURNS: Final = 5  # Of the event loop, in which the tasks of a handler may add questions to the first.
_OF_A_RETRY: Final = ("_meta", "inputResponses", "requestState")


class Source(Protocol):
    """Whose handler it is: the keys it seals with, and whose request it takes one for."""

    @property
    def keys(self) -> KeyRing | None: ...

    def principal(self, ctx: Any) -> str: ...


class Asking(Protocol):
    """The conversation whose request it is: `source` has the handler, and `outside` is a context of the request itself."""

    @property
    def source(self) -> Source: ...

    def outside(self, session: Speaker, asked: Asked) -> Any: ...


class Suspended(BaseException):
    """Ends a handler whose questions have no answers yet; no `except Exception` stops it."""


class _Known:
    """What is known of one round: what it asks, who waits for that, and what was found out before."""

    def __init__(self, state: dict[str, dict[str, Any]]) -> None:
        self.state = state
        self.questions: dict[str, dict[str, Any]] = {}
        self.counts: dict[str, int] = {}
        self.waiting: list[asyncio.Future[Any]] = []


class Rounds(Passing):
    """The conversation as the handler of one request has it: what it asks the client is asked by the answer."""

    __slots__ = ("_asked", "_asking", "_found")

    def __init__(self, session: Speaker, asked: Asked, asking: Asking) -> None:
        # Not by way of the base class, and no more than this: most handlers ask nothing.
        self._session = session
        self._asked = asked
        self._asking = asking
        self._found: _Known | None = None

    async def ask(
        self,
        row: Request[Any] | InputRequest[Any],
        params: dict[str, Any] | BaseModel,
        timeout: float | None,
        on_progress: OnProgress | None = None,
        longest: float | None = None,
    ) -> BaseModel:
        """The client's answer, once it has come back with it. Raises Refusal for a capability it has not declared, and
        for an answer that is none."""
        if isinstance(row, Request):
            return await self._session.ask(row, params, timeout, on_progress, longest)
        value: dict[str, Any] = from_json(json_of(params))
        try:
            said = reader(row.params)(value)
        except ValidationError as fault:
            raise InvalidMessage(f"{row.method!r}: params: {complaint(fault)} ({self.peer.revision.id})") from None
        check_asked(self.peer.revision, self._outside().capabilities, [(row, said)])
        known = self._known()
        key, state = _key(known, row, value), known.state
        answer = state["answers"].get(key)
        if answer is None and key in state["asked"]:
            answer = self._responses().get(key)
        if answer is None:
            known.questions[key] = {"method": row.method, "params": value}
            return cast(BaseModel, await self._suspend(known))
        try:
            read: BaseModel = reader(cast(Any, row).result)(answer)
        except ValidationError as fault:
            raise Refusal(INVALID_PARAMS, f"the answer to {key!r} is not what it may be: {complaint(fault)}") from None
        state["answers"][key] = answer
        return read

    async def once(self, key: str, make: Callable[[], Any]) -> Any:
        """What `make` gave, as JSON, when this was first called for the request."""
        done = self._known().state["done"]
        if key not in done:
            made = make()
            done[key] = from_json(to_json(await made if inspect.isawaitable(made) else made))
        return done[key]

    def questions(self, end: Suspended | BaseExceptionGroup) -> Any:
        """The questions without which the handler, which has come to this end, cannot go on. Raises the rest of it."""
        if isinstance(end, BaseExceptionGroup) and end.split(Suspended)[1] is not None:
            raise end
        known, interim = self._known(), self._asked.row.asks
        assert interim is not None, "only what can be answered with questions has rounds"
        state = {**known.state, "asked": dict.fromkeys(known.questions, True)}
        sealed = self._ring().seal(to_json(state), self._bound())
        said = {interim.property: interim.value, "inputRequests": known.questions, "requestState": sealed}
        return reader(interim.result)(said)

    # ---- waiting ------------------------------------------------------------------------------------------------------

    async def _suspend(self, known: _Known) -> Any:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Any] = loop.create_future()
        known.waiting.append(waiting)
        if len(known.waiting) == 1:
            self._settle(known, loop, _TURNS)
        return await waiting

    def _settle(self, known: _Known, loop: asyncio.AbstractEventLoop, turns: int) -> None:
        """End the handler, once its other tasks had their turns to ask as well."""
        if turns:
            loop.call_soon(self._settle, known, loop, turns - 1)
            return
        waiting, known.waiting = known.waiting, []
        for each in waiting:
            if not each.done():
                each.set_exception(Suspended())

    # ---- what is handed back ------------------------------------------------------------------------------------------

    def _known(self) -> _Known:
        """What is known, with what earlier rounds found out. Raises Refusal for a state that is not that of this request
        and user."""
        if self._found is None:
            state: dict[str, dict[str, Any]] = {"answers": {}, "done": {}, "asked": {}}
            sealed: str | None = getattr(self._asked.params, "request_state", None)
            if sealed is not None:
                try:
                    state = from_json(self._ring().open(sealed, self._bound()))
                except Unsealable as why:
                    raise Refusal(INVALID_PARAMS, f"the requestState is refused: {why}") from None
            self._found = _Known(state)
        return self._found

    def _responses(self) -> dict[str, Any]:
        found = self._asked.params.model_dump().get("inputResponses")
        return found if is_object(found) else {}

    def _outside(self) -> Any:
        return self._asking.outside(self._session, self._asked)

    def _ring(self) -> KeyRing:
        return self._asking.source.keys or own_ring()

    def _bound(self) -> bytes:
        """What a state is good for: one user, one method, the same params."""
        params = {name: each for name, each in self._asked.params.model_dump().items() if name not in _OF_A_RETRY}
        user = self._asking.source.principal(self._outside())
        return to_json([user, self.peer.revision.id, self._asked.row.method, _digest(params)])


def _key(known: _Known, row: InputRequest[Any], value: dict[str, Any]) -> str:
    """The key of a question: the same for the same question in each round, whatever the order."""
    key = f"{row.name.removeprefix('on_')}-{_digest(value)[:12]}"
    count = known.counts[key] = known.counts.get(key, 0) + 1
    return key if count == 1 else f"{key}-{count}"


def _digest(value: object) -> str:
    return sha256(to_json(_sorted(value))).hexdigest()


def _sorted(value: Any) -> Any:
    if is_object(value):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if is_list(value) else value
