"""The answers of a client to the input requests of results, and to those of tasks."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from pydantic import BaseModel

from ...endpoint.base import Endpoint
from ...protocol.events import RequestReceived
from ...protocol.revision import Handshake, InputRequest, Request, Revision
from ...session.options import Params, RequestOptions
from ..context import ClientContext


class InputAnswers(Endpoint):
    """The base of clients: it answers input requests with the handlers of the client."""

    async def _resolve_input_required(
        self, row: Request[Any], params: Params, result: Any, options: RequestOptions | None
    ) -> Any:
        """Answer the input requests of a result with this client's handlers, and send the request again."""
        from ..input_required import resolve_input_required

        arguments = params.model_dump() if isinstance(params, BaseModel) else dict(params)
        if arguments.get("inputResponses") is not None or arguments.get("requestState") is not None:
            return result  # The caller handles the rounds itself.
        rows = self._input_handlers()

        def is_answerable(result: Any) -> bool:
            if not hasattr(result, "input_requests"):
                return False
            input_requests: dict[str, Any] = result.input_requests or {}
            return all(input_request.method in rows for input_request in input_requests.values())

        async def answer(input_request: Any) -> Any:
            return await self._answer_input_request(rows[input_request.method], input_request.params)

        retry = partial(super()._send_request, row, options=options)
        return await resolve_input_required(
            row.method, arguments, result, is_answerable=is_answerable, answer=answer, retry=retry
        )

    async def _wait_for_task(self, task: BaseModel, options: RequestOptions | None) -> Any:
        """Return the result of the request that was answered with this task."""
        from ..task_polling import TaskRequests, wait_for_task

        requests = TaskRequests(self.revision, self._send_request, self._input_handlers(), self._answer_input_request)
        return await wait_for_task(requests, task, options)

    def _input_handlers(self) -> dict[str, InputRequest[Any]]:
        rows = (row for row in self.revision.rows if isinstance(row, InputRequest))
        return {row.method: row for row in rows if row.method in self._handlers}

    async def _answer_input_request(self, row: InputRequest[Any], params: Any) -> Any:
        """Return the response of a handler to an input request."""
        request = RequestReceived("", cast(Any, row), params)
        return await self._handlers[row.method](ClientContext(self._require_channel(), request, self), params)


def capabilities_property(revision: Revision) -> tuple[Any, str]:
    """Return the type of the message that declares the client's capabilities, and the property of it."""
    lifecycle = revision.lifecycle
    if isinstance(lifecycle, Handshake):
        return lifecycle.initialize_request.params, lifecycle.fields.client_capabilities
    return lifecycle.discover.params.model_fields["meta"].annotation, "client_capabilities"
