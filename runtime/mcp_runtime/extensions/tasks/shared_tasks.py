"""Tasks in the store that the workers of an endpoint share: any worker serves the requests about a task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from ...errors import JSONRPCError, LocalError
from ...protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from ...protocol.models import format_validation_error, validator
from ...protocol.revision import InputRequest, Revision
from ...stores.primitives import Store
from ...stores.retrying_store import RetryingStore
from ...transports.http_shared.worker import Worker
from .execution import CancelReason, TaskExecution
from .store import TERMINAL_STATUSES, TaskRecord

_FOREVER: Final = 7 * 86_400.0  # Seconds for which a task without a time to live is stored.
_MAX_TASKS, _MAX_TASKS_OF_OWNER = 1000, 100  # Tasks that this worker has created and that have not expired.
_ANSWER_SECONDS: Final = 2.0  # Seconds to wait until the worker of a task has taken the responses of the client.
_ANSWER_PAUSE: Final = 0.01
_ENDED: Final = "the worker that ran this task has ended"


class SharedTasks:
    """The tasks of all workers, as a store of one of them. The handler of a task runs where its call was served."""

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
        self._worker = Worker(store.store if isinstance(store, RetryingStore) else store, f"{namespace}:{revision.id}")
        self._rows = {row.method: row for row in revision.rows if isinstance(row, InputRequest)}
        self._executions = executions
        self._created: dict[str, TaskRecord] = {}
        self._worker.on("responses", self._on_responses)
        self._worker.on("cancel", self._on_cancel)

    # ---- as a task store ---------------------------------------------------------------------------------------------

    async def add(self, record: TaskRecord) -> None:
        """Store a new task until it expires. Raises LocalError if this worker has too many tasks."""
        now = time.time()
        self._created = {id: created for id, created in self._created.items() if created.expires > now}
        owned = sum(created.owner == record.owner for created in self._created.values()) if record.owner else 0
        if len(self._created) >= _MAX_TASKS or owned >= _MAX_TASKS_OF_OWNER:
            raise LocalError(f"there are {len(self._created)} tasks already, {owned} of this user; try again later")
        await self._worker.subscribe()
        self._created[record.id] = record
        await self._put(record, self._worker.id)

    async def get(self, id: str) -> TaskRecord | None:
        """Return the task with this id, None if it does not exist or has expired; it has failed if its worker ended."""
        value = await self._worker.store.get(self._key(id))
        if value is None:
            return None
        runner, record = _read(value)
        if record.status in TERMINAL_STATUSES or await self._worker.is_alive(runner):
            return record
        error = {"code": INTERNAL_ERROR, "message": _ENDED}
        failed = replace(record, status="failed", updated=time.time(), message=_ENDED, detail={"error": error})
        await self._put(failed, runner)
        return failed

    async def update(self, record: TaskRecord) -> None:
        """Replace the record of a task; do nothing if it does not exist any more."""
        if await self._worker.store.get(self._key(record.id)) is not None:
            await self._worker.retry(lambda: self._put(record, self._worker.id))

    async def _put(self, record: TaskRecord, runner: str) -> None:
        seconds = _FOREVER if record.ttl is None else max(record.expires - time.time(), _ANSWER_PAUSE)
        await self._worker.store.put(self._key(record.id), to_json([runner, asdict(record)]), seconds)

    def _key(self, id: str) -> str:
        return self._worker.key("task", id)

    # ---- tasks of other workers --------------------------------------------------------------------------------------

    async def elsewhere(self, id: str) -> RemoteExecution | None:
        """Return the execution of a task at another worker; None if there is no such task."""
        value = await self._worker.store.get(self._key(id))
        return None if value is None else RemoteExecution(self, id, *_read(value))

    async def send(self, runner: str, kind: str, **fields: Any) -> None:
        """Send a message to the worker of a task, which gets it once."""
        await self._worker.deliver(runner, kind, **fields)

    def cancel(self, runner: str, id: str) -> None:
        """Cancel a task at its worker."""
        self._worker.spawn(self.send(runner, "cancel", task=id))

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
            self._worker.spawn(execution.resolve_inputs(fields["responses"]))

    def _on_cancel(self, fields: dict[str, Any]) -> None:
        if (execution := self._executions.get(fields["task"])) is not None:
            execution.cancel("cancelled")


class RemoteExecution:
    """A task whose handler runs at another worker."""

    def __init__(self, tasks: SharedTasks, id: str, runner: str, record: TaskRecord) -> None:
        self._tasks, self._id, self._runner, self._record = tasks, id, runner, record

    async def resolve_inputs(self, responses: Mapping[str, Any]) -> None:
        """Pass responses of the client to the worker; see `TaskExecution.resolve_inputs`."""
        awaited = self._tasks.check(self._record, responses)
        if not awaited:
            return
        await self._tasks.send(self._runner, "responses", task=self._id, responses=awaited)
        until = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < until:
            record = await self._tasks.get(self._id)
            if record is None or not record.detail.get("inputRequests", {}).keys() & awaited.keys():
                return
            await asyncio.sleep(_ANSWER_PAUSE)

    def cancel(self, reason: CancelReason) -> None:
        """Cancel the handler."""
        self._tasks.cancel(self._runner, self._id)


def _read(value: bytes) -> tuple[str, TaskRecord]:
    """Return the worker of a task, and its record."""
    runner, fields = from_json(value)
    fields["scopes"] = tuple(fields["scopes"])
    return runner, TaskRecord(**fields)
