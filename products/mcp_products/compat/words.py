"""What the originals tell a client where an App has words of its own: of arguments, exceptions and unknown names.

Their results are equal to those here for what was called well. A program, or the tests of a program, may read the rest.
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Awaitable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from mcp_products.app.components.kinds import LISTS as LISTS
from mcp_products.app.components.named_things import UnknownItemError
from mcp_products.app.registry import Registry
from mcp_runtime.errors import JSONRPCError, MCPError
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcp_runtime.protocol.models import PreSerialized, is_model, is_object, plain_of

log: Final = logging.getLogger("mcp_runtime.compat")


@dataclass(frozen=True, kw_only=True)
class Words:
    """How one original says it. The texts are formats of the `name` of a thing, and of an `error`.

    Args:
        told: What a tool says of a `ToolError`, and of arguments that do not fit.
        failed: What it says of another exception, where these are shown.
        hidden: What it says of one where they are not.
        title: The title of an error of arguments: a format of the `name` of the tool and of its `function`.
        unknown: What is said of a name that is not there, by the handler of the request.
        unread: What is said of a resource whose function has raised an exception, where these are shown.
        kinds: The kinds of errors of arguments that have another name, by those of pydantic's models.
        is_official: Whether unknown arguments are forgotten and schemas have titles, as in the official SDK.
    """

    told: str
    failed: str
    hidden: str
    title: str
    unknown: Mapping[str, str]
    unread: str
    kinds: Mapping[str, str]
    is_official: bool

    def argument_error(self, error: ValidationError, title: str, given: Mapping[str, Any]) -> ValidationError:
        """Return an error of arguments as the model of the original reports it.

        Args:
            error: The error.
            title: The title of the model.
            given: The arguments as the client has sent them.
        """
        details: list[InitErrorDetails] = []
        for item in error.errors(include_url=False):
            kind = self.kinds.get(item["type"], item["type"]) if len(item["loc"]) == 1 else item["type"]
            is_missing = item["type"] == "missing" and len(item["loc"]) == 1
            made: Any = {"type": kind, "loc": item["loc"], "input": given if is_missing else item["input"]}
            made |= {"ctx": item["ctx"]} if "ctx" in item else {}
            try:
                ValidationError.from_exception_data(title, [made])
            except (KeyError, TypeError):  # A kind of a program's own type.
                custom: Any = PydanticCustomError
                made["type"] = custom(item["type"], item["msg"].replace("{", "{{"))
            details.append(made)
        return ValidationError.from_exception_data(title, details)


_TABLES: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
OFFICIAL: Final = Words(**_TABLES["official"])
STANDALONE: Final = Words(**_TABLES["standalone"])


def without_logging(result: Any, unchanging: Container[str] = ()) -> Any:
    """Return a result whose capabilities, if it has some, are told without logging and changes of lists."""
    value = result.value if isinstance(result, PreSerialized) else result
    fields: dict[str, Any] = value if is_object(value) else plain_of(value) if is_model(value) else {}
    if "capabilities" not in fields:
        return result
    told = {kind: item for kind, item in fields["capabilities"].items() if kind != "logging"}
    told |= {kind: dict.fromkeys(item, False) for kind, item in told.items() if kind in unchanging}
    return PreSerialized({**fields, "capabilities": told})


class WordedRegistry(Registry):
    """The tools, resources and prompts of a server that has the words of an original for unknown names.

    Attributes:
        words: The words.
        shows_exceptions: Whether an error of a resource has the text of the exception.
        announces: Whether it declares that its lists change; it has `subscriptions=False` otherwise.
    """

    words: Words = OFFICIAL
    shows_exceptions: bool = True
    announces: bool = True

    def handle(self, name: str, ctx: Any, params: Any, states: Any) -> Awaitable[Any]:
        """Return the awaitable result of a request, with the words of the original where it fails."""
        result = super().handle(name, ctx, params, states)
        return self._worded(name, result, params) if name in self.words.unknown else result

    async def handle_lifecycle(self, name: str, ctx: Any, params: Any, handler: Any) -> Any:
        """Handle another message; without announcements, the lists that a client is told of never change."""
        result = await super().handle_lifecycle(name, ctx, params, handler)
        return result if self.announces else without_logging(result, LISTS)

    async def call_tool(self, ctx: Any, params: Any, states: Any) -> Any:
        """Call a tool; a name without one gives a result with `isError`, as in the originals."""
        return await self._worded("call_tool", super().call_tool(ctx, params, states), params)

    async def get_prompt(self, ctx: Any, params: Any, states: Any) -> Any:
        """Return the messages of a prompt. An official server refuses unknown arguments; `fastmcp` forgets them."""
        prompt = self.prompts.get(params.name)
        given: dict[str, Any] = params.arguments or {}
        if prompt is not None:
            arguments = prompt.definition.arguments or ()
            if missing := {item.name for item in arguments if item.required} - given.keys():
                raise JSONRPCError(INVALID_PARAMS, f"Missing required arguments: {missing}")
            if not self.words.is_official:
                named = {item.name: given[item.name] for item in arguments if item.name in given}
                params = params.model_copy(update={"arguments": named})
        return await super().get_prompt(ctx, params, states)

    async def _worded(self, handler: str, result: Awaitable[Any], params: Any) -> Any:
        name = params.uri if handler == "read_resource" else params.name
        try:
            return await result
        except UnknownItemError as error:
            text = self.words.unknown[handler].format(name=name)
            if handler != "call_tool":
                raise JSONRPCError(error.code, text, error.data) from error
            return self._t.CallToolResult(content=[self._t.TextContent(text=text)], is_error=True)
        except MCPError:
            raise
        except Exception as error:
            if handler != "read_resource":
                raise
            log.exception("the resource %r failed", name)
            text = self.words.unread.format(name=name, error=error)
            text = text if self.shows_exceptions else text.removesuffix(f": {error}")
            raise JSONRPCError(INTERNAL_ERROR, text) from error
