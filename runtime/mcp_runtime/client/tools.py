"""Call a server's tools with approval, checks of structured results, and an audit log."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ..errors import InvalidResponseError, ProtocolViolationError
from ..session.options import RequestOptions

Approve = Callable[[str, Mapping[str, Any]], Awaitable[bool]]

audit: Final = logging.getLogger("mcp_runtime.audit")


class ApprovedTools:
    """The tools of a server, called with approval and checked results.

    The tools are listed once, until `forget` is called. Each call writes a line with the tool and the outcome, without
    the arguments, to the logger `mcp_runtime.audit`. See
    https://modelcontextprotocol.io/specification/draft/server/tools#security-considerations
    """

    def __init__(self, client: Any, approve: Approve | None = None) -> None:
        """Create the approved tools of a client's server.

        Args:
            client: A connected client.
            approve: An async function that is called before each call, whatever the annotations of the tool are. It
                gets the name of the tool and the arguments, to show them to a person, and returns True to allow the
                call. By default all calls are allowed.
        """
        self._client = client
        self._approve = approve
        self._schemas: dict[str, Mapping[str, Any] | None] | None = None

    def forget(self) -> None:
        """Forget the list of tools; call it when the server notifies that its tools have changed."""
        self._schemas = None

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, options: RequestOptions | None = None
    ) -> Any:
        """Return the result of a tool call.

        Args:
            name: The name of the tool.
            arguments: The arguments of the tool; by default none.
            options: How the request is made: timeout, progress, metadata.

        Raises ProtocolViolationError if the call is not approved, and InvalidResponseError if the structured content
        does not match the tool's output schema.
        """
        outcome = "failed"
        try:
            if self._approve is not None and not await self._approve(name, arguments or {}):
                outcome = "denied"
                raise ProtocolViolationError(f"the call of the tool {name!r} was not approved")
            result = await self._client.call_tool(name=name, arguments=arguments, options=options)
            await self._check(name, result)
            outcome = "error" if getattr(result, "is_error", None) else "done"
            return result
        finally:
            audit.info("tool %r: %s", name, outcome)

    async def _check(self, name: str, result: Any) -> None:
        if self._schemas is None:
            tools = [tool async for tool in self._client.iter_tools()]
            self._schemas = {tool.name: _output_schema(tool) for tool in tools}
        schema = self._schemas.get(name)
        if schema is None or getattr(result, "is_error", None):
            return
        from ..json_schema.validator import compile_schema

        fields = result.model_dump(warnings=False)  # It may have content of an unknown type.
        if "structuredContent" not in fields:
            raise InvalidResponseError(
                f"the tool {name!r} has an output schema, but its result has no structured content"
            )
        if mismatch := compile_schema(schema).first_error(fields["structuredContent"]):
            raise InvalidResponseError(
                f"the structured content of the tool {name!r} does not match its output schema: {mismatch}"
            )


def _output_schema(tool: Any) -> Mapping[str, Any] | None:
    schema: Mapping[str, Any] | None = tool.model_dump().get("outputSchema")
    return schema
