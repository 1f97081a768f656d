"""Methods that the protocol does not have, as functions of an app."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from mcp_runtime.errors import JSONRPCError
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcp_runtime.protocol.models import format_validation_error, is_object
from mcp_runtime.server.context import ServerContext

from .middleware.hooks import Handler, MiddlewareAdapter, chain
from .registry import LifespanStates, Registry
from .signatures.signature import Signature
from .signatures.type_hints import readable_hint

_DECORATORS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("call_tool", "list_tools"), "@app.tool"),
    **dict.fromkeys(("read_resource", "list_resources", "list_resource_templates"), '@app.resource("scheme://path")'),
    **dict.fromkeys(("get_prompt", "list_prompts"), "@app.prompt"),
    "complete": "@app.completion",
}


class OwnMethod:
    """A function that handles a method which the protocol does not have.

    Attributes:
        params: The type of the params as a whole; None if each parameter of the function is one of them.
        returns: The type that the function returns.
        signature: The parameters of the function.
    """

    def __init__(self, registry: Registry, function: Callable[..., Any], method: str, scopes: Sequence[str]) -> None:
        """Inspect the function. Raises LocalError if it cannot handle a method."""
        self._registry = registry
        self._method = method
        self._description = f"the method {method!r}"
        self._scopes = scopes
        self.signature = Signature(function, self._description)
        self.returns = self.signature.returns
        parameters = self.signature.parameters
        hint = next(iter(self.signature.annotations.values())) if len(parameters) == 1 else None
        whole = _is_object_type(hint)
        self._name = next(iter(parameters), "") if whole else ""
        self.params: Any = hint if whole else None
        self._adapter: TypeAdapter[Any] | None = None
        if whole:
            self._adapter = TypeAdapter(readable_hint(hint))

    def read(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of the function. Raises JSONRPCError (invalid params)."""
        try:
            if self._adapter is not None:
                return {self._name: self._adapter.validate_python(params)}
            return self.signature.read({name: value for name, value in params.items() if name != "_meta"}, False)
        except ValidationError as error:
            text = f"{self._description}: params: {format_validation_error(error)}"
            raise JSONRPCError(INVALID_PARAMS, text) from None

    async def __call__(self, ctx: ServerContext, params: dict[str, Any]) -> Any:
        """Return the result of a message, through the middleware functions of the app: its objects are called before.

        Raises JSONRPCError.
        """
        ctx.require_scopes(*self._scopes)
        states: LifespanStates = ctx.state or {}
        ctx.state = states.get(self._registry)
        functions = [item for item in self._registry.middleware if not isinstance(item, MiddlewareAdapter)]
        call_next: Handler = chain(functions, self._method, self._call) if functions else self._call
        return await call_next(ctx, params)

    async def _call(self, ctx: ServerContext, params: Any) -> Any:
        """Call the function, and return its result as a JSON object."""
        value = await self.signature.call(ctx, self.read(params))
        result: Any = {} if value is None else to_jsonable_python(value, by_alias=True)
        if not is_object(result):
            raise JSONRPCError(
                INTERNAL_ERROR, f"{self._description} has returned no object: return a dict, a model or None"
            )
        return result


def _is_object_type(hint: object) -> bool:
    """Return True for the type of an object: a model, a dataclass, a TypedDict or a dict."""
    origin = getattr(hint, "__origin__", hint)
    if not isinstance(origin, type):
        return False
    is_declared = hasattr(origin, "__dataclass_fields__") or hasattr(origin, "__total__")
    return is_declared or issubclass(origin, (BaseModel, dict)) or origin is Mapping


def line_for_app(name: str) -> str:
    """Return what to write for a method of the protocol, by the name of its handler."""
    decorator = _DECORATORS.get(name)
    return "the app answers it itself" if decorator is None else f"decorate functions with {decorator}"
