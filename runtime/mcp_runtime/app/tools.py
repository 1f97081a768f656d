"""A function goes in, a tool comes out: its definition for the list, and what calls it with checked arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import to_json

from ..auth.resource.challenge import check_scopes
from ..errors import InvalidMessage, LocalError, McpError, Refusal
from ..exchange import log
from ..faces.server import ServerContext
from ..faces.tasking import Task
from ..schemas import compiled
from ..wire import complaint
from .content import blocks
from .options import ToolSettings, said
from .results import Output, declared, output_of
from .signature import Signature, name_of

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


Told = tuple[type[Exception], ...]


class ToolError(McpError):
    """Raise it in a tool: the model reads the message as the result, which is marked as an error."""


class Tool:
    """A tool of an app; `definition` is what the list shows."""

    def __init__(
        self, function: Callable[..., Any], name: str | None, settings: ToolSettings, t: ModuleType, coerce: bool
    ) -> None:
        """Raises LocalError where it cannot be one."""
        self.name = name or name_of(function)
        if not _NAME.fullmatch(self.name):
            raise LocalError(f"{self.name!r} cannot name a tool: 1 to 128 letters, digits, '_', '-' and '.'")
        self._what = f"the tool {self.name!r}"
        self._t = t
        self._coerce = settings.get("coerce", coerce)
        self.scopes = check_scopes(settings.get("scopes", ()))
        self._signature = Signature(function, self._what)
        task = settings.get("task", False)
        self.task = task if isinstance(task, Task) else Task() if task else None
        own = settings.get("input_schema")
        self._given = None if own is None else compiled(own)
        if own is not None and len(self._signature.parameters) != 1:
            raise LocalError(f"{self._what}: with a schema of its own it has one parameter, a dict of the arguments")
        self._output = self._declared(settings)
        self.definition: Any = t.Tool.model_validate(
            {
                "name": self.name,
                **said(settings, self._signature.description),
                "inputSchema": self._signature.schema() if own is None else dict(own),
                "outputSchema": None if self._output is None else self._output.schema,
                "annotations": settings.get("annotations"),
            }
        )

    async def call(
        self, ctx: ServerContext, arguments: Mapping[str, Any] | None, answers: tuple[type, ...], told: Told
    ) -> Any:
        """The result. What is wrong with the arguments, and what the tool raises, is in a result marked as an error:
        the text of the exceptions of `told`, and of others that the tool has failed."""
        try:
            given = self._read(arguments or {})
            if self.task is not None:
                ctx._how = self.task  # pyright: ignore[reportPrivateUsage]
                if self.task.at_once:
                    await ctx.as_task()
            value = await self._signature.call(ctx, given)
            if isinstance(value, answers):
                return value
            return self._result(value)
        except (Refusal, InvalidMessage):
            raise
        except Exception as fault:
            if isinstance(fault, told):
                return self._failed(str(fault))
            log.exception("%s failed", self._what)
            return self._failed(f"{self._what} failed")

    def _declared(self, settings: ToolSettings) -> Output | None:
        schema = settings.get("output_schema")
        if schema is not None:
            return declared(schema, self._what)
        return output_of(self._signature.returns, self._what) if settings.get("structured", True) else None

    def _read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if self._given is None:
            try:
                return self._signature.read(arguments, self._coerce)
            except ValidationError as fault:
                raise ToolError(f"{self._what}: invalid arguments: {complaint(fault)}") from None
        try:
            wrong = self._given.complaint(dict(arguments))
        except InvalidMessage as fault:
            wrong = str(fault)
        if wrong is not None:
            raise ToolError(f"{self._what}: invalid arguments: {wrong}")
        [name] = self._signature.parameters
        return {name: dict(arguments)}

    def _result(self, value: Any) -> Any:
        t = self._t
        if self._output is None:
            return t.CallToolResult(content=blocks(value, t))
        structured = self._output.structure(value)
        text = value if isinstance(value, str) else to_json(structured).decode()
        return t.CallToolResult(content=[t.TextContent(text=text)], structured_content=structured)

    def _failed(self, why: str) -> Any:
        return self._t.CallToolResult(content=[self._t.TextContent(text=why)], is_error=True)
