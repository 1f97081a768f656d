"""Middleware: functions and objects around the handlers of messages, and ready ones for common tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_module

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

__all__ = [
    "AccessRequest",
    "AuthMiddleware",
    "AuthorizationCheck",
    "CallNext",
    "DetailedTimingMiddleware",
    "ErrorHandlingMiddleware",
    "LoggingMiddleware",
    "Middleware",
    "MiddlewareContext",
    "PingMiddleware",
    "RateLimitingMiddleware",
    "ResponseCachingMiddleware",
    "ResponseLimitingMiddleware",
    "RetryMiddleware",
    "SlidingWindowRateLimitingMiddleware",
    "StructuredLoggingMiddleware",
    "TimingMiddleware",
    "ToolInjectionMiddleware",
    "own_scopes",
    "require_scopes",
    "restrict_tag",
]

_MODULES = {
    "AuthMiddleware": "authorization",
    "AuthorizationCheck": "authorization",
    "AccessRequest": "authorization",
    "CallNext": "hooks",
    "DetailedTimingMiddleware": "logging",
    "ErrorHandlingMiddleware": "logging",
    "LoggingMiddleware": "logging",
    "Middleware": "hooks",
    "MiddlewareContext": "hooks",
    "PingMiddleware": "tools",
    "RateLimitingMiddleware": "limits",
    "ResponseCachingMiddleware": "caching",
    "ResponseLimitingMiddleware": "limits",
    "RetryMiddleware": "logging",
    "SlidingWindowRateLimitingMiddleware": "limits",
    "StructuredLoggingMiddleware": "logging",
    "TimingMiddleware": "logging",
    "ToolInjectionMiddleware": "tools",
    "own_scopes": "authorization",
    "require_scopes": "authorization",
    "restrict_tag": "authorization",
}

__getattr__, __dir__ = lazy_module(__name__, names=_MODULES)
