"""A client goes in; its server's tools are called with what they answer checked, and each use is written down."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ..errors import InvalidResponseError, ProtocolViolationError
from ..session.options import RequestOptions

Approve = Callable[[str, Mapping[str, Any]], Awaitable[bool]]

audit: Final = logging.getLogger("mcp_runtime.audit")


class ApprovedTools:
    """The tools of a client's server: listed once, until `forget`. The logger `mcp_runtime.audit` gets a line for each
    call, with the tool and how it ended, and without its arguments. `approve` is asked before each call, whatever a tool
    says of itself in its annotations: it gets the name and the arguments, to be shown to a person, and says yes or no.
    """

    def __init__(self, client: Any, approve: Approve | None = None) -> None:
        self._client = client
        self._approve = approve
        self._schemas: dict[str, Mapping[str, Any] | None] | None = None

    def forget(self) -> None:
        """List again next time, as when the server says that its tools have changed."""
        self._schemas = None

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, options: RequestOptions | None = None
    ) -> Any:
        """The result. Raises InvalidResponseError where its structured content does not fit the tool's output schema, and
        ProtocolViolationError where the call is not approved."""
        ending = "failed"
        try:
            if self._approve is not None and not await self._approve(name, arguments or {}):
                ending = "denied"
                raise ProtocolViolationError(f"the call of the tool {name!r} was not approved")
            answer = await self._client.call_tool(name=name, arguments=arguments, options=options)
            await self._check(name, answer)
            ending = "error" if getattr(answer, "is_error", None) else "done"
            return answer
        finally:
            audit.info("tool %r: %s", name, ending)

    async def _check(self, name: str, result: Any) -> None:
        if self._schemas is None:
            listed = [tool async for tool in self._client.iter_tools()]
            self._schemas = {tool.name: _output_schema(tool) for tool in listed}
        schema = self._schemas.get(name)
        if schema is None or getattr(result, "is_error", None):
            return
        from ..json_schema.validator import compile_schema

        said = result.model_dump()
        if "structuredContent" not in said:
            raise InvalidResponseError(
                f"the tool {name!r} has an output schema, and answered without structured content"
            )
        if wrong := compile_schema(schema).first_error(said["structuredContent"]):
            raise InvalidResponseError(f"the tool {name!r} answered what does not fit its output schema: {wrong}")


def _output_schema(tool: Any) -> Mapping[str, Any] | None:
    schema: Mapping[str, Any] | None = tool.model_dump().get("outputSchema")
    return schema
