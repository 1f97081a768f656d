"""Tasks in the store that the workers of an endpoint share: any worker serves the requests about a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from mcp_products.common.caches import BoundedCache
from mcp_products.extensions.tasks.execution import CANCELLED, CancelReason, TaskExecution
from mcp_products.extensions.tasks.store import TERMINAL_STATUSES, HeldTask, TaskLimits, TaskRecord, make_room
from mcp_runtime.aio import clock
from mcp_runtime.errors import JSONRPCError, LocalError
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcp_runtime.protocol.models import format_validation_error, validator
from mcp_runtime.protocol.revision import InputRequest, Revision
from mcp_runtime.stores import ANYTHING, Expected, Store, StoreUnavailableError

from ..sessions.worker import Worker
from ..stores.retries import RetryingStore

LIMITS: Final = TaskLimits()  # Of the tasks of all workers.
_ANSWER_SECONDS: Final = 2.0  # Seconds to wait until the worker of a task has taken the responses of the client.
_ANSWER_PAUSE: Final = 0.01
_ENDED_SECONDS, _ENDED_BYTES = 60.0, 16 << 20  # Of the tasks that have ended and are stored again after a loss.
_ENDED: Final = "the worker that ran this task has ended"
_FOREVER: Final = 7 * 86_400.0  # Seconds for which a task without a time to live is stored.
_SHORTEST: Final = 0.01
_HOLDER_LENGTH: Final = 22  # Characters of the digest of who has a task: names may be long.


# The places that the tasks of all workers take: one record of the store says who has how many.


class Place(NamedTuple):
    """The place of a task: until when it is taken, the worker that runs the task, and what limits know of it."""

    expires: float
    runner: str
    task: HeldTask


class TaskPlaces:
    """The places of the tasks of all workers. Each change replaces the record, unless another worker was faster."""

    def __init__(self, worker: Worker) -> None:
        """Use a record of the store of a worker."""
        self._worker = worker
        self._key = worker.key("task-places")
        self._turn = asyncio.Lock()  # The changes of one worker do not hinder each other.

    async def take(self, record: TaskRecord, runner: str) -> list[str]:
        """Take the place of a new task, and return the ids of the tasks to drop. Raises LocalError if its client has
        its share already."""
        place = Place(expiry_of(record), runner, held_task(record))
        dropped: list[str] = []

        def taken(places: dict[str, Place]) -> bool:
            dropped.clear()
            held = {id: other.task for id, other in places.items() if id != record.id}
            dropped.extend(make_room(held, _with_digest(record), LIMITS))
            for id in dropped:
                del places[id]
            places[record.id] = place
            return True

        try:
            await self._change(taken)
        except LocalError:
            if not await self._forget_lost():
                raise
            await self._change(taken)
        return dropped

    async def end(self, record: TaskRecord) -> None:
        """Note that a task has ended, and the size of its result."""

        def ended(places: dict[str, Place]) -> bool:
            place = places.get(record.id)
            if place is None or place.task.has_ended:
                return False
            places[record.id] = place._replace(task=held_task(record))
            return True

        await self._change(ended)

    async def give_back(self, id: str) -> None:
        """Give back the place of a task that was not stored."""
        await self._change(lambda places: places.pop(id, None) is not None)

    async def restore(self, own: Mapping[str, Place]) -> None:
        """Take the places of tasks again that the store has lost."""

        def restored(places: dict[str, Place]) -> bool:
            missing = {id: place for id, place in own.items() if id not in places}
            places.update(missing)
            return bool(missing)

        if own:
            await self._change(restored)

    async def _forget_lost(self) -> bool:
        """Give back the places of tasks whose workers have ended before them; return True if there were some."""
        runners = {
            place.runner for place in (await self._read())[1].values() if place.runner and not place.task.has_ended
        }
        ended = {runner for runner in runners if not await self._worker.is_alive(runner)}

        def without(places: dict[str, Place]) -> bool:
            lost = [id for id, place in places.items() if place.runner in ended and not place.task.has_ended]
            for id in lost:
                del places[id]
            return bool(lost)

        return bool(ended) and await self._change(without)

    async def _change(self, change: Callable[[dict[str, Place]], bool]) -> bool:
        """Change the places; return False, and store nothing, if the function returns that."""
        async with self._turn:
            while True:
                value, places = await self._read()
                if not change(places):
                    return False
                seconds = max((place.expires for place in places.values()), default=0.0) - clock.wall()
                written = to_json([[id, place.expires, place.runner, *place.task] for id, place in places.items()])
                if await self._worker.store.put(self._key, written, max(seconds, _SHORTEST), value):
                    return True

    async def _read(self) -> tuple[bytes | None, dict[str, Place]]:
        value, now = await self._worker.store.get(self._key), clock.wall()
        rows: list[Any] = [] if value is None else from_json(value)
        places: dict[str, Place] = {row[0]: Place(row[1], row[2], HeldTask(*row[3:])) for row in rows}
        return value, {id: place for id, place in places.items() if place.expires > now}


def expiry_of(record: TaskRecord) -> float:
    """Return the time until which a task is stored."""
    return clock.wall() + _FOREVER if record.ttl is None else record.expires


def held_task(record: TaskRecord) -> HeldTask:
    """Return what limits have to know of a task, with a short name of who has it."""
    return HeldTask.of(_with_digest(record))


def _with_digest(record: TaskRecord) -> TaskRecord:
    def digest(name: str) -> str:
        return sha256(name.encode()).hexdigest()[:_HOLDER_LENGTH] if name else ""

    return replace(record, owner=digest(record.owner), client=digest(record.client))


# The tasks of all workers.


class StoredTask(NamedTuple):
    """A task as it is stored: the worker that runs it, "" for none, its record, whether it may run twice, and whether
    the worker of such a task has to cancel it."""

    runner: str
    record: TaskRecord
    is_repeatable: bool
    is_cancelled: bool = False


class SharedTasks:
    """The tasks of all workers, as a store of one of them. The handler of a task runs where its call was served, and
    that of a repeatable one at any worker."""

    def __init__(
        self, store: Store, namespace: str, revision: Revision, executions: Mapping[str, TaskExecution]
    ) -> None:
        """Use a store.

        Args:
            store: The store of all workers.
            namespace: The name of the server.
            revision: The protocol version of the tasks.
            executions: The tasks whose handlers run here, by their ids.
        """
        self.source = store
        bare = store.store if isinstance(store, RetryingStore) else store
        self.worker = Worker(bare, f"{namespace}:{revision.id}", begins_late=True)
        self._rows = {row.method: row for row in revision.rows if isinstance(row, InputRequest)}
        self._executions = executions
        self._created: dict[str, Place] = {}  # The places of the tasks that were created here.
        self._places = TaskPlaces(self.worker)
        self.worker.on("responses", self._on_responses)
        self.worker.on("cancel", self._on_cancel)
        self.worker.keep(self._keep)
        self.worker.on_loss(lambda: self._places.restore(self._created))
        self.worker.on_loss(self._restore_ended)
        self._ended = BoundedCache[str, TaskRecord](LIMITS.tasks, ttl=_ENDED_SECONDS, max_bytes=_ENDED_BYTES)

    # ---- as a task store ---------------------------------------------------------------------------------------------

    async def add(self, record: TaskRecord, is_repeatable: bool = False) -> None:
        """Store a new task until it expires. Raises LocalError if there are too many tasks of all workers."""
        now, runner = clock.wall(), "" if is_repeatable else self.worker.id
        self._created = {id: place for id, place in self._created.items() if place.expires > now}
        await self.worker.subscribe()
        try:
            for id in await self._places.take(record, runner):
                self._created.pop(id, None)
                self._ended.remove(id)
                await self.worker.store.delete(self._key(id))
            self._created[record.id] = Place(expiry_of(record), runner, held_task(record))
            await self._put(StoredTask(runner, record, is_repeatable))
        except StoreUnavailableError:
            self._created.pop(record.id, None)
            self.worker.spawn(self.worker.retry(lambda: self._places.give_back(record.id)))
            raise

    async def get(self, id: str) -> TaskRecord | None:
        """Return the task with this id, None if it does not exist or has expired; it has failed if its worker ended."""
        value = await self._value(id)
        if value is None:
            return None
        task = _read(value)
        record = task.record
        if record.status in TERMINAL_STATUSES or task.is_repeatable or await self.worker.is_alive(task.runner):
            return record
        error = {"code": INTERNAL_ERROR, "message": _ENDED}
        failed = replace(record, status="failed", updated=clock.wall(), message=_ENDED, detail={"error": error})
        await self._put(task._replace(record=failed))
        return failed

    async def _value(self, id: str) -> bytes | None:
        """Return what is stored of a task; wait for its worker if the store has just lost it."""
        if not self.worker.is_subscribed:
            await self.worker.subscribe()
        return await self.worker.restored(lambda: self.worker.store.get(self._key(id)))

    async def update(self, record: TaskRecord) -> None:
        """Replace the record of a task; do nothing if it has expired, or if another worker runs it now. What the store
        has lost is stored again."""
        value = await self.worker.retry(lambda: self.worker.store.get(self._key(record.id)))
        if value is None and record.expires <= clock.wall():
            return
        await self.worker.retry(lambda: self._write(record, _is_repeatable(value)))
        if record.status in TERMINAL_STATUSES:
            self._ended.put(record.id, record, size=len(to_json(record.detail)))

    async def _keep(self) -> None:
        """Let the tasks be stored that run here, however long, and also after the store has lost its past."""
        for execution in list(self._executions.values()):
            can_repeat = _is_repeatable(await self.worker.store.get(self._key(execution.record.id)))
            record = execution.record  # As it is now.
            if (can_repeat or record.id in self._created) and record.status not in TERMINAL_STATUSES:
                await self._write(record, can_repeat)

    async def _write(self, record: TaskRecord, can_repeat: bool) -> None:
        """Store a task that runs here. What the store has lost cannot begin again elsewhere: its call is lost too."""
        if can_repeat:
            await self.change(record.id, lambda task: self._if_here(task, record=record))
        else:
            await self._put(StoredTask(self.worker.id, record, False))

    async def _restore_ended(self) -> None:
        """Store the tasks again that have ended here lately, after the store has lost its past."""
        for _, record in self._ended.items():
            await self._put(StoredTask(self.worker.id, record, False), None)

    def _if_here(self, task: StoredTask, **changes: Any) -> StoredTask | None:
        return task._replace(**changes) if task.runner == self.worker.id else None

    async def _put(self, task: StoredTask, expected: Expected = ANYTHING) -> bool:
        record = task.record
        value = to_json([task.runner, asdict(record), task.is_repeatable, task.is_cancelled])
        is_stored = await self.worker.store.put(self._key(record.id), value, seconds_of(record), expected)
        if is_stored and record.status in TERMINAL_STATUSES:
            if (place := self._created.get(record.id)) is not None:
                self._created[record.id] = place._replace(task=held_task(record))
            await self._places.end(record)
        return is_stored

    def _key(self, id: str) -> str:
        return self.worker.key("task", id)

    # ---- repeatable tasks --------------------------------------------------------------------------------------------

    async def change(self, id: str, change: Callable[[StoredTask], StoredTask | None]) -> StoredTask | None:
        """Replace a task by what a function returns for it, and return that, unless it has ended or expired, or the
        function returns None. Raises StoreUnavailableError."""
        while (value := await self.worker.store.get(self._key(id))) is not None:
            task = _read(value)
            changed = None if task.record.status in TERMINAL_STATUSES else change(task)
            if changed is None or await self._put(changed, value):
                return changed
        return None

    async def claim(self, id: str) -> TaskRecord | None:
        """Let a repeatable task run here, from its beginning; return its record, None if it has ended or expired."""

        def claimed(task: StoredTask) -> StoredTask:
            if task.is_cancelled:  # Its worker ended before it was cancelled there.
                return task._replace(record=_cancelled(task.record))
            record = replace(task.record, status="working", updated=clock.wall(), message=None, detail={})
            return task._replace(runner=self.worker.id, record=record)

        task = await self.change(id, claimed)
        return None if task is None or task.is_cancelled else task.record

    async def release(self, id: str) -> None:
        """Let a repeatable task that ran here wait until it begins again."""
        await self.worker.retry(lambda: self.change(id, lambda task: self._if_here(task, runner="")))

    async def _cancel_repeatable(self, id: str) -> None:
        """Cancel a repeatable task: at the worker that runs it, or else before it begins."""
        while (value := await self.worker.store.get(self._key(id))) is not None:
            task = _read(value)
            if task.record.status in TERMINAL_STATUSES or not task.is_repeatable:
                return
            if task.runner == self.worker.id and (execution := self._executions.get(id)) is not None:
                return execution.cancel("cancelled")
            runs = task.runner not in ("", self.worker.id) and await self.worker.is_alive(task.runner)
            changed = task._replace(is_cancelled=True) if runs else task._replace(record=_cancelled(task.record))
            if await self._put(changed, value):
                return await self.send(task.runner, "cancel", task=id) if runs else None

    # ---- tasks of other workers --------------------------------------------------------------------------------------

    async def elsewhere(self, id: str) -> RemoteExecution | None:
        """Return the execution of a task at another worker; None if there is no such task."""
        value = await self._value(id)
        return None if value is None else RemoteExecution(self, _read(value))

    async def send(self, runner: str, kind: str, **fields: Any) -> None:
        """Send a message to the worker of a task, which gets it once."""
        await self.worker.deliver(runner, kind, **fields)

    def cancel(self, task: StoredTask) -> None:
        """Cancel a task at its worker."""
        id = task.record.id
        cancelling = self._cancel_repeatable(id) if task.is_repeatable else self.send(task.runner, "cancel", task=id)
        self.worker.spawn(cancelling)

    def check(self, record: TaskRecord, responses: Mapping[str, Any]) -> dict[str, Any]:
        """Return the responses that a task waits for. Raises JSONRPCError for one that does not match its request."""
        requests = record.detail.get("inputRequests", {})
        for key in responses.keys() & requests.keys():
            result: Any = self._rows[requests[key]["method"]].result
            validate: Callable[[Any], Any] = validator(result)
            try:
                validate(responses[key])
            except ValidationError as error:
                reason = format_validation_error(error)
                raise JSONRPCError(INVALID_PARAMS, f"the response to {key!r} is invalid: {reason}") from None
        return {key: responses[key] for key in responses.keys() & requests.keys()}

    def _on_responses(self, fields: dict[str, Any]) -> None:
        if (execution := self._executions.get(fields["task"])) is not None:
            self.worker.spawn(execution.resolve_inputs(fields["responses"]))

    def _on_cancel(self, fields: dict[str, Any]) -> None:
        if (execution := self._executions.get(fields["task"])) is not None:
            execution.cancel("cancelled")
        else:  # It ran here until lately.
            self.worker.spawn(self._cancel_repeatable(fields["task"]))


class RemoteExecution:
    """A task whose handler runs at another worker."""

    def __init__(self, tasks: SharedTasks, task: StoredTask) -> None:
        self._tasks = tasks
        self._task = task

    async def resolve_inputs(self, responses: Mapping[str, Any]) -> None:
        """Pass responses of the client to the worker; see `TaskExecution.resolve_inputs`."""
        id, awaited = self._task.record.id, self._tasks.check(self._task.record, responses)
        if not awaited:
            return
        await self._tasks.send(self._task.runner, "responses", task=id, responses=awaited)
        until = clock.monotonic() + _ANSWER_SECONDS
        while clock.monotonic() < until:
            record = await self._tasks.get(id)
            if record is None or not record.detail.get("inputRequests", {}).keys() & awaited.keys():
                return
            await asyncio.sleep(_ANSWER_PAUSE)

    def cancel(self, reason: CancelReason) -> None:
        """Cancel the handler."""
        self._tasks.cancel(self._task)


def seconds_of(record: TaskRecord) -> float:
    """Return the seconds for which what belongs to a task is stored."""
    return _FOREVER if record.ttl is None else max(record.expires - clock.wall(), _ANSWER_PAUSE)


def _cancelled(record: TaskRecord) -> TaskRecord:
    return replace(record, status="cancelled", updated=clock.wall(), message=CANCELLED, detail={})


def _is_repeatable(value: bytes | None) -> bool:
    """Return True for a stored task that can begin again."""
    return value is not None and _read(value).is_repeatable


def _read(value: bytes) -> StoredTask:
    """Return a stored task."""
    runner, fields, is_repeatable, is_cancelled = from_json(value)
    fields["scopes"] = tuple(fields["scopes"])
    return StoredTask(runner, TaskRecord(**fields), is_repeatable, is_cancelled)
