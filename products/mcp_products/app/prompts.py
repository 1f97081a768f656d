"""Prompts of an app: the definition of a prompt, and the call of its function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from pydantic_core import ValidationError

from mcp_runtime.errors import JSONRPCError, UnwritableValueError
from mcp_runtime.protocol.jsonrpc import INVALID_PARAMS
from mcp_runtime.protocol.models import format_validation_error, is_object
from mcp_runtime.server.context import ServerContext

from .content import Message, as_list, to_content_blocks
from .context.context import with_encrypted_state
from .settings import Item, Settings, to_definition, to_wire
from .signatures.generated_types import as_own
from .signatures.signature import Signature, function_name


class Prompt(Item):
    """A prompt of an app; `definition` is its item in the prompts list."""

    def __init__(
        self, function: Callable[..., Any], name: str | None, settings: Settings, t: ModuleType, indent: int | None
    ) -> None:
        """Create a prompt from a function. Raises LocalError if its parameters cannot be prompt arguments."""
        self.name = name or function_name(function)
        super().__init__(f"the prompt {self.name!r}", settings, t, indent)
        self._signature = Signature(function, self._description, settings.get("thread"))
        schema = self._signature.schema()
        required = schema.get("required", [])
        arguments = [
            {
                "name": name,
                "description": field.get("description"),
                "title": field.get("title"),
                "required": name in required,
            }
            for name, field in schema["properties"].items()
        ]
        self.definition: Any = to_definition(
            t.Prompt,
            {
                **to_wire(settings, self._signature.summary),
                "name": self.name,
                "arguments": arguments or None,
            },
            self._description,
        )

    async def get(self, ctx: ServerContext, arguments: Mapping[str, str] | None, result_types: tuple[type, ...]) -> Any:
        """Return the GetPromptResult. Raises JSONRPCError (invalid params) for missing, unknown or invalid
        arguments."""
        try:
            values = self._signature.read(arguments or {}, coerce=True)
        except ValidationError as error:
            raise JSONRPCError(
                INVALID_PARAMS, f"{self._description}: invalid arguments: {format_validation_error(error)}"
            ) from None
        value = as_own(await self._signature.call(ctx, values), self._t, result_types)
        if isinstance(value, result_types):
            return with_encrypted_state(ctx, value)
        messages = [message for item in as_list(value) for message in self._messages(item)]
        return self._t.GetPromptResult(description=self.definition.description, messages=messages)

    def _messages(self, value: Any) -> list[Any]:
        """Return the messages of a value: one for each content block."""
        match as_own(value, self._t, (self._t.PromptMessage,)):
            case self._t.PromptMessage() as message:
                return [message]
            case Message():
                role, content = value.role, value.content
            case {"content": inner}:
                role, content = value.get("role", "user"), inner
            case dict():
                text = f"{self._description} returned a dict without 'content': use {{'role', 'content'}}"
                raise UnwritableValueError(text)
            case _:
                role, content = "user", value
        try:
            if is_object(content) and isinstance(content.get("type"), str):
                return [self._t.PromptMessage.model_validate({"role": role, "content": content})]
            blocks = to_content_blocks(content, self._t, self.indent)
            return [self._t.PromptMessage(role=role, content=block) for block in blocks]
        except UnwritableValueError as error:
            raise self._unsendable(error) from None
        except ValidationError as error:  # Such as the role "system", which prompts do not have.
            raise self._unsendable(format_validation_error(error)) from None
