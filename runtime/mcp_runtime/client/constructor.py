"""What the arguments of a client's constructor must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..aio.rate_limit import RateLimit
from ..session.options import RequestOptions
from ..usage.rules import FUNCTION, MAPPING, SECONDS, TEXT, Rule, is_items
from .cache import ClientResponseCache
from .roots import FileRoots


def _are_packages(value: Any) -> bool:
    return is_items(value) and all(hasattr(item, "methods") for item in value)


def _are_rate_limits(value: Any) -> bool:
    return MAPPING.accepts(value) and all(item is None or isinstance(item, RateLimit) for item in value.values())


RULES: Final[Mapping[str, Rule]] = {
    "connect": Rule(FUNCTION.accepts, "an async function: write Client.http(url), or Client.stdio(*words)"),
    "name": TEXT,
    "version": TEXT,
    "capabilities": Rule(MAPPING.accepts, 'a dict, such as {"roots": {}}').or_none(),
    "connect_options": Rule(lambda value: isinstance(value, RequestOptions), "RequestOptions(timeout=…)"),
    "ping_interval": SECONDS.or_none(),
    "timeout": SECONDS.or_none(),
    "rate_limits": Rule(_are_rate_limits, 'a dict such as {"on_elicit": RateLimit(1, burst=5)}').or_none(),
    "on_close": Rule(callable, "a function of an error or None").or_none(),
    "on_error": Rule(callable, "a function of an exception").or_none(),
    "extensions": Rule(_are_packages, "a list of packages of mcp_generated.extensions"),
    "cache": Rule(lambda value: isinstance(value, (bool, ClientResponseCache)), "True, False or a ClientResponseCache"),
    "roots": Rule(lambda value: isinstance(value, FileRoots), 'FileRoots("folder", …)').or_none(),
}
