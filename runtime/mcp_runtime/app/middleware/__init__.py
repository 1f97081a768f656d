"""Middleware: functions and objects around the handlers of messages, and ready ones for common tasks."""

from typing import TYPE_CHECKING

from ..._lazy import lazy_module

if TYPE_CHECKING:
    from .authorization import AccessRequest as AccessRequest
    from .authorization import AuthMiddleware as AuthMiddleware
    from .authorization import AuthorizationCheck as AuthorizationCheck
    from .authorization import require_scopes as require_scopes
    from .authorization import restrict_tag as restrict_tag
    from .failure_handling import ErrorHandlingMiddleware as ErrorHandlingMiddleware
    from .failure_handling import RetryMiddleware as RetryMiddleware
    from .hooks import CallNext as CallNext
    from .hooks import Middleware as Middleware
    from .hooks import MiddlewareContext as MiddlewareContext
    from .message_log import LoggingMiddleware as LoggingMiddleware
    from .message_log import StructuredLoggingMiddleware as StructuredLoggingMiddleware
    from .ping_interval import PingMiddleware as PingMiddleware
    from .rate_limiting import RateLimitingMiddleware as RateLimitingMiddleware
    from .rate_limiting import SlidingWindowRateLimitingMiddleware as SlidingWindowRateLimitingMiddleware
    from .response_caching import ResponseCachingMiddleware as ResponseCachingMiddleware
    from .response_limiting import ResponseLimitingMiddleware as ResponseLimitingMiddleware
    from .timing import DetailedTimingMiddleware as DetailedTimingMiddleware
    from .timing import TimingMiddleware as TimingMiddleware
    from .tool_injection import ToolInjectionMiddleware as ToolInjectionMiddleware

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
    "require_scopes",
    "restrict_tag",
]

_MODULES = {
    "AuthMiddleware": "authorization",
    "AuthorizationCheck": "authorization",
    "AccessRequest": "authorization",
    "CallNext": "hooks",
    "DetailedTimingMiddleware": "timing",
    "ErrorHandlingMiddleware": "failure_handling",
    "LoggingMiddleware": "message_log",
    "Middleware": "hooks",
    "MiddlewareContext": "hooks",
    "PingMiddleware": "ping_interval",
    "RateLimitingMiddleware": "rate_limiting",
    "ResponseCachingMiddleware": "response_caching",
    "ResponseLimitingMiddleware": "response_limiting",
    "RetryMiddleware": "failure_handling",
    "SlidingWindowRateLimitingMiddleware": "rate_limiting",
    "StructuredLoggingMiddleware": "message_log",
    "TimingMiddleware": "timing",
    "ToolInjectionMiddleware": "tool_injection",
    "require_scopes": "authorization",
    "restrict_tag": "authorization",
}

__getattr__, __dir__ = lazy_module(__name__, names=_MODULES)
