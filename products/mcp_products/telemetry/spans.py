"""OpenTelemetry spans of requests, on the side that sends them and on the side that handles them.

Names and attributes are those of OpenTelemetry's semantic conventions for MCP. Without an SDK of OpenTelemetry, or if
the application has configured none, nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final

from opentelemetry.context import Context, get_current
from opentelemetry.trace import Span, SpanKind, StatusCode, get_tracer

from mcp_runtime.errors import JSONRPCError, RemoteJSONRPCError
from mcp_runtime.protocol.models import PreSerialized, is_object
from mcp_runtime.usage.texts import error_text, shortened

NAME: Final = "mcp_runtime"  # The instrumentation scope.

ended_in: Final[ContextVar[Context | None]] = ContextVar("ended_in", default=None)
"""The context of the span that has ended last in this asyncio task."""


async def traced(
    kind: str, method: str, params: Any, attributes: dict[str, Any], handle: Callable[[], Awaitable[Any]]
) -> Any:
    """Return the result of a request, in a span of its own.

    Args:
        kind: "client" for the side that sends the request, "server" for the one that handles it.
        method: The method of the request.
        params: Its params, as a model or as JSON.
        attributes: Further attributes; those that are None are left out.
        handle: Sends or handles the request.
    """
    target, own = target_of(method, params)
    present = {name: value for name, value in {**own, **attributes}.items() if value is not None}
    name = method if target is None else f"{method} {target}"
    with get_tracer(NAME).start_as_current_span(
        name,
        kind=SpanKind[kind.upper()],
        attributes={"mcp.method.name": method, **present},
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            result = await handle()
        except Exception as error:
            if span.is_recording():
                _set_error(span, error)
            raise
        finally:
            ended_in.set(get_current())
        if span.is_recording() and is_error_result(result):
            span.set_attribute("error.type", "tool_error")
            span.set_status(StatusCode.ERROR)
        return result


def target_of(method: str, params: Any) -> tuple[str | None, dict[str, Any]]:
    """Return the name of the tool or prompt of a request, for the span's name, and the attributes of its params."""
    name, uri = (_value(params, field) for field in ("name", "uri"))
    if uri is not None:
        return None, {"mcp.resource.uri": shortened(uri)}
    if name is None:
        return None, {}
    name = shortened(name)
    family = method.partition("/")[0].removesuffix("s")
    operation = {"gen_ai.operation.name": "execute_tool"} if family == "tool" else {}
    return name, {f"gen_ai.{family}.name": name, **operation}


def _value(params: Any, field: str) -> str | None:
    value = params.get(field) if is_object(params) else getattr(params, field, None)
    return value if isinstance(value, str) else None


def is_error_result(result: Any) -> bool:
    """Return True for the result of a tool that has failed, also one that was converted for another version."""
    if isinstance(result, PreSerialized):
        result = result.value
    return (result.get("isError") if is_object(result) else getattr(result, "is_error", None)) is True


def _set_error(span: Span, error: Exception) -> None:
    if isinstance(error, (JSONRPCError, RemoteJSONRPCError)):
        span.set_attribute("rpc.response.status_code", str(error.code))
        span.set_attribute("error.type", str(error.code))
    else:
        span.set_attribute("error.type", type(error).__qualname__)
        span.record_exception(error)
    span.set_status(StatusCode.ERROR, error_text(error))
