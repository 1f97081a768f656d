"""Middleware: functions and objects around the handlers of messages, and ready ones for common tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_members

if TYPE_CHECKING:
    from .authorization import AccessRequest as AccessRequest
    from .authorization import AuthMiddleware as AuthMiddleware
    from .authorization import AuthorizationCheck as AuthorizationCheck
    from .authorization import own_scopes as own_scopes
    from .authorization import require_scopes as require_scopes
    from .authorization import restrict_tag as restrict_tag
    from .caching import ResponseCachingMiddleware as ResponseCachingMiddleware
    from .hooks import CallNext as CallNext
    from .hooks import Middleware as Middleware
    from .hooks import MiddlewareContext as MiddlewareContext
    from .limits import RateLimitingMiddleware as RateLimitingMiddleware
    from .limits import ResponseLimitingMiddleware as ResponseLimitingMiddleware
    from .limits import SlidingWindowRateLimitingMiddleware as SlidingWindowRateLimitingMiddleware
    from .logging import DetailedTimingMiddleware as DetailedTimingMiddleware
    from .logging import ErrorHandlingMiddleware as ErrorHandlingMiddleware
    from .logging import LoggingMiddleware as LoggingMiddleware
    from .logging import RetryMiddleware as RetryMiddleware
    from .logging import StructuredLoggingMiddleware as StructuredLoggingMiddleware
    from .logging import TimingMiddleware as TimingMiddleware
    from .tools import PingMiddleware as PingMiddleware
    from .tools import ToolInjectionMiddleware as ToolInjectionMiddleware

__getattr__, __dir__ = lazy_members(
    __name__,
    {
        "authorization": (
            "AccessRequest",
            "AuthMiddleware",
            "AuthorizationCheck",
            "own_scopes",
            "require_scopes",
            "restrict_tag",
        ),
        "caching": ("ResponseCachingMiddleware",),
        "hooks": ("CallNext", "Middleware", "MiddlewareContext"),
        "limits": ("RateLimitingMiddleware", "ResponseLimitingMiddleware", "SlidingWindowRateLimitingMiddleware"),
        "logging": (
            "DetailedTimingMiddleware",
            "ErrorHandlingMiddleware",
            "LoggingMiddleware",
            "RetryMiddleware",
            "StructuredLoggingMiddleware",
            "TimingMiddleware",
        ),
        "tools": ("PingMiddleware", "ToolInjectionMiddleware"),
    },
)
