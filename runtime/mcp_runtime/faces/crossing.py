"""Handlers of one revision and a conversation of another go in; each message is converted on its way through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from ..convert import chain_of
from ..errors import ErrorResponse, InvalidMessage, InvalidResponse, NotAllowed, NotConvertible, Refusal
from ..exchange import OnProgress, log
from ..jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, json_of, plain_of
from ..lifecycle import Capabilities, split
from ..peer import Asked, Peer, Side, Told
from ..seams import Passing, Speaker
from ..spec import META, OPPOSITE, Direction, Handshake, InputRequest, Notification, Request, Revision, Sent, Stateless
from ..wire import Said, complaint, is_object, reader
from .face import Context, Handler
from .guards import check_harmless

Row = Sent | InputRequest[Any]
MakeContext = Callable[["Inside", Asked | Told, Any], Any]


class Crossing:
    """The way between handlers of the revision `inner` and conversations of the revision `outer`."""

    def __init__(self, inner: Revision, outer: Revision, receives: Direction) -> None:
        self.inner = inner
        self.outer = outer
        self.receives: Direction = receives
        self.inward = chain_of(inner.family, outer.id, inner.id)
        self.outward = chain_of(inner.family, inner.id, outer.id)
        self.rows: Mapping[tuple[str, str], Row] = {(row.direction, row.method): row for row in inner.rows}
        self._peer = Peer(inner, cast(Side, receives.rpartition("_")[2]), own={})
        self._declared: tuple[Capabilities, Capabilities] = {}, {}  # By the last side that was asked about.

    def handlers(self, inner: Mapping[str, Handler], context: MakeContext) -> dict[str, Handler]:
        """The handlers of the outer revision, each of which runs that of the same method inside; `context` makes what
        they are given, from the context of the outer revision."""
        asked = (row for row in self.outer.rows if isinstance(row, InputRequest) and row.direction == self.receives)
        rows: list[Row] = [*self.outer.table(self.receives).values(), *asked]
        return {row.method: self._handler(row, inner[row.method], context) for row in rows if row.method in inner}

    def _handler(self, row: Row, handler: Handler, context: MakeContext) -> Handler:
        inside = self.rows[self.receives, row.method]
        if isinstance(inside, Notification):

            async def hear(ctx: Context, params: Any) -> None:
                session, message = ctx._session, ctx._message  # pyright: ignore[reportPrivateUsage]
                told = Told(inside, self._params(session, inside, params))
                await handler(context(Inside(self, session, message), told, ctx), told.params)

            return hear

        questions = self._questions(inside)
        known: tuple[type[BaseModel], ...] = getattr(inside, "answers", (getattr(inside, "result", BaseModel),))

        async def answer(ctx: Context, params: Any) -> Any:
            session, message = ctx._session, ctx._message  # pyright: ignore[reportPrivateUsage]
            speaker = Inside(self, session, message)
            asked = Asked(cast(Asked, message).id, cast(Any, inside), self._params(session, inside, params))
            while True:
                try:
                    result = await handler(context(speaker, asked, ctx), asked.params)
                except Refusal as refusal:
                    refusal.code = self.outward.error(self.receives, row.method, refusal.code)
                    raise
                if not isinstance(result, questions):
                    return self._result(row, inside, known, result)
                asked = Asked(asked.id, asked.row, await self._answered(speaker, asked, result))

        return answer

    # ---- inward -----------------------------------------------------------------------------------------------------

    def _params(self, session: Speaker, inside: Row, params: Any) -> Any:
        """The params for the handler. Raises Refusal where they cannot be said in its revision."""
        if inside.params is None:
            return None
        value: Any = {} if params is None else plain_of(params)
        given = {"client_capabilities": self.capabilities(session.peer.theirs)}
        try:
            made = self.inward.params(self.receives, inside.method, value, given=given)
            if isinstance(self.inner.lifecycle, Handshake):
                made = _with_own_keys(made, value)
            return reader(inside.params)(made)
        except NotConvertible as fault:
            raise Refusal(INVALID_PARAMS, str(fault)) from None
        except ValidationError as fault:
            raise Refusal(INVALID_PARAMS, f"{inside.method!r}: params: {complaint(fault)} ({self.inner.id})") from None

    def capabilities(self, theirs: Capabilities) -> Capabilities:
        """What the other side has declared, in the words of the handlers' revision."""
        if not theirs:
            return theirs
        known, said = self._declared
        if known is not theirs:
            said = self.inward.type(_declares(OPPOSITE[self.receives]), theirs)
            self._declared = theirs, said
        return said

    def peer(self, outer: Peer) -> Peer:
        """The conversation as handlers may ask about it."""
        peer = self._peer.alike()
        peer.theirs = self.capabilities(outer.theirs)
        return peer

    # ---- outward ----------------------------------------------------------------------------------------------------

    def declared(self, own: Capabilities) -> Capabilities:
        """What the handlers declare, in the words of the outer revision, without what cannot be served there."""
        said: Capabilities = from_json(json_of(self.outward.type(_declares(self.receives), own)))
        side = self.receives.rpartition("_")[2]
        rows = [row for row in self.outer.table(self.receives).values() if isinstance(row, Request)]
        for capability in {row.capability for row in rows if row.capability}:
            owner, path = split(capability)
            if owner == side and all(self._is_lost(row) for row in rows if row.capability == capability):
                _take_back(said, path)
        return said

    def _is_lost(self, row: Sent) -> bool:
        gone = self.inward.gone(row.direction, row.method)
        return gone is not None and gone.answer != "runtime"

    def _result(self, row: Row, inside: Row, known: tuple[type[BaseModel], ...], result: Any) -> Any:
        """The answer of a handler, for the client. Raises InvalidMessage for one that is not of the `known` types, and
        Refusal where it cannot be said in the outer revision."""
        if not isinstance(result, known):
            names = " or ".join(kind.__name__ for kind in known)
            raise InvalidMessage(
                f"{inside.method!r} in {self.inner.id} is answered by {names}, not by {type(result).__name__}"
            )
        interim = "" if isinstance(result, known[0]) else type(result).__name__
        try:
            if isinstance(row, InputRequest):  # It becomes a part of the params of the next request.
                return self.outward.result(self.receives, row.method, plain_of(result))
            if not interim and self.outward.keeps_result(self.receives, row.method):
                return Said(result)
            made = self.outward.result(self.receives, row.method, plain_of(result), interim=interim)
        except NotConvertible as fault:
            raise Refusal(INTERNAL_ERROR, str(fault)) from None
        if isinstance(self.outer.lifecycle, Handshake):
            return Said(made)
        return cast(Request[Any], row).read_result(made)  # The runtime signs it, and has to know it as a model.

    def told(self, row: Notification, params: Mapping[str, Any] | None) -> tuple[Notification, dict[str, Any]] | None:
        """A notification of the handlers as one of the outer revision; None where that has no such thing."""
        outside = self.outer.table(row.direction).get(row.method)
        if not isinstance(outside, Notification):
            log.debug("%r is not told: %s has no such notification", row.method, self.outer.id)
            return None
        return outside, self.outward.params(row.direction, row.method, dict(params or {}))

    def heard(self, row: Notification, params: dict[str, Any]) -> dict[str, Any] | None:
        """The params of a notification of the outer revision as the handlers' revision has them, None where it has no
        such thing. Raises NotConvertible."""
        if (row.direction, row.method) not in self.rows:
            return None
        made: dict[str, Any] = self.inward.params(row.direction, row.method, params)
        return made

    # ---- questions inside results ------------------------------------------------------------------------------------

    def _questions(self, inside: Row) -> tuple[type[BaseModel], ...]:
        """The results of a method that ask something first, where the outer revision asks it by requests."""
        asks = inside.asks if isinstance(inside, Request) and isinstance(self.outer.lifecycle, Handshake) else None
        return () if asks is None else (asks.result,)

    async def _answered(self, speaker: Inside, asked: Asked, result: Any) -> Any:
        """The params again, with the client's answers to what a result asks."""
        answers: dict[str, Any] = {}
        asks: dict[str, Any] = result.input_requests or {}
        for key, question in asks.items():
            check_harmless(question.params)
            said: dict[str, Any] = question.model_dump()
            row = self.rows[OPPOSITE[self.receives], said["method"]]
            try:
                answers[key] = await speaker.ask_outside(row, said.get("params") or {}, None)
            except ErrorResponse as refused:
                raise Refusal(refused.code, refused.message, refused.data) from refused
        state = {} if result.request_state is None else {"requestState": result.request_state}
        return reader(asked.row.params)({**asked.params.model_dump(), "inputResponses": answers, **state})


class Inside(Passing):
    """A conversation as handlers of the inner revision see it: what they ask and tell is converted."""

    def __init__(self, crossing: Crossing, session: Speaker, message: Asked | Told | None = None) -> None:
        self._session = session  # Not by way of the base class: this is done for every message.
        self._crossing = crossing
        self._message = message

    @property
    def peer(self) -> Peer:
        return self._crossing.peer(self._session.peer)

    async def ask(
        self,
        row: Request[Any] | InputRequest[Any],
        params: dict[str, Any] | BaseModel,
        timeout: float | None,
        on_progress: OnProgress | None = None,
        longest: float | None = None,
    ) -> BaseModel:
        """As the session's own. Raises NotConvertible where it cannot be asked in the outer revision."""
        value = self._checked(row, params)
        answer = await self.ask_outside(row, value, timeout, on_progress, longest)
        try:
            return row.read_result(answer, value) if isinstance(row, Request) else reader(cast(Any, row).result)(answer)
        except ValidationError as fault:
            inner = self._crossing.inner.id
            raise InvalidResponse(f"{row.method!r} in {inner}: the answer is not what it may be: {complaint(fault)}")

    async def ask_outside(
        self,
        row: Row,
        value: dict[str, Any],
        timeout: float | None,
        on_progress: OnProgress | None = None,
        longest: float | None = None,
    ) -> Any:
        """The answer, as JSON of the inner revision, to params that are."""
        outside = self._outside(row)
        crossing = self._crossing
        given = {"client_capabilities": self._session.peer.own}
        made = crossing.outward.params(row.direction, row.method, value, given=given)
        try:
            answer = await self._asked(outside, made, timeout, on_progress, longest)
        except ErrorResponse as refused:
            code = crossing.inward.error(row.direction, row.method, refused.code)
            raise ErrorResponse(code, refused.message, refused.data, refused.status) from refused
        interim = "" if type(answer) is outside.result else type(answer).__name__
        return crossing.inward.result(row.direction, row.method, answer.model_dump(), interim=interim)

    async def _asked(self, outside: Any, made: Any, *how: Any) -> Any:
        return await self._session.ask(outside, made, *how)

    async def tell(self, row: Notification, params: Any) -> None:
        """As the session's own; what the outer revision has no notification for is not told."""
        if isinstance(self._message, Asked) and not self._message.open:
            return
        said = self._crossing.told(row, None if params is None else self._checked(row, params))
        if said is not None:
            await self._session.tell(said[0], said[1] or None)

    def _outside(self, row: Row) -> Any:
        crossing = self._crossing
        outside = crossing.outer.table(row.direction).get(row.method)
        if outside is None and isinstance(crossing.outer.lifecycle, Stateless):
            asked = (each for each in crossing.outer.rows if isinstance(each, InputRequest))
            outside = cast(Any, next((each for each in asked if each.method == row.method), None))
        if not isinstance(outside, (Request, InputRequest)):
            gone = crossing.outward.gone(row.direction, row.method)
            why = "it is asked inside results" if gone is None else gone.why
            raise NotAllowed(f"{row.method!r} in {crossing.inner.id} cannot be asked in {crossing.outer.id}: {why}")
        return cast(Any, outside)

    def _checked(self, row: Row, params: Any) -> dict[str, Any]:
        """The params as plain JSON. Raises InvalidMessage where they are not what the inner revision has."""
        value: dict[str, Any] = from_json(json_of(params))
        try:
            if row.params is not None:
                reader(row.params)(value)
        except ValidationError as fault:
            inner = self._crossing.inner.id
            raise InvalidMessage(f"{row.method!r} in {inner}: params: {complaint(fault)}") from None
        return value


def _declares(sent: Direction) -> str:
    """The type in which the side that receives these messages declares what it can."""
    return f"{sent.rpartition('_')[2].capitalize()}Capabilities"


def _take_back(capabilities: Capabilities, path: tuple[str, ...]) -> None:
    at: Any = capabilities
    for step in path[:-1]:
        at = at.get(step, {}) if is_object(at) else {}
    if is_object(at):
        at.pop(path[-1], None)


def _with_own_keys(made: Any, value: Any) -> Any:
    """The params with the protocol's own keys of the metadata they came with: handlers may ask for them by name."""
    meta = value.get("_meta") if is_object(value) else None
    own = {key: each for key, each in meta.items() if key.startswith(META)} if is_object(meta) else {}
    return {**made, "_meta": {**made.get("_meta", {}), **own}} if own and is_object(made) else made
