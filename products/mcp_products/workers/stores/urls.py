"""The store that a URL names: what `store=` takes."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit, urlunsplit

from mcp_runtime._lazy import load
from mcp_runtime.errors import LocalError
from mcp_runtime.stores import Store
from mcp_runtime.usage.rules import shown

_METHODS: Final = ("get", "put", "touch", "delete", "count", "append", "read", "last", "drop", "publish", "subscribe")
_SOCKET_SECONDS: Final = 3.0  # Seconds for Redis to answer, unless the URL has `socket_timeout`.
_CONNECT_SECONDS: Final = 1.0  # Seconds for a node of a cluster to be connected: its replica may take over.
_CLUSTERS: Final = {"redis+cluster": "redis", "rediss+cluster": "rediss"}  # By the scheme that redis-py knows.
_PORT: Final = 6379
_EXAMPLES: Final = '"memory", "sqlite:///path" or "redis://host"'


def open_store(function: str, store: Any) -> Store | None:
    """Return the store that `store=` of a function names; None for "memory", what one process has itself.

    It connects with its first command.

    Args:
        function: The name of the function, for messages.
        store: "memory", the URL of a SQLite file or of a Redis, or a Store.

    Raises LocalError for anything else, and if the package is not installed that the store needs.
    """
    if not isinstance(store, str):
        if all(callable(getattr(store, name, None)) for name in _METHODS):
            result: Store = store
            return result
        raise LocalError(f"{function}(): store must be {_EXAMPLES}, or a Store; {shown(store)} is not")
    scheme, _, rest = store.partition("://")
    if store == "memory":
        return None
    if scheme == "sqlite" and ":memory:" in rest:
        raise LocalError(
            f"{function}(): store={shown(store)} would be another database in each process; write "
            'store="sqlite:///folder/store.db", or store="memory" for one process'
        )
    if scheme == "sqlite" and re.fullmatch(r"/[^?#]+", rest):
        from .sqlite import SQLiteStore

        return SQLiteStore(_file(function, rest.removeprefix("/")))
    if scheme == "sqlite":
        raise LocalError(f'{function}(): store={shown(store)} names no file; write store="sqlite:///folder/store.db"')
    if scheme == "unix" and sys.platform == "win32":
        raise LocalError(f'{function}(): store="unix://…" needs Unix sockets; on Windows, write store="redis://host"')
    if scheme in ("redis", "rediss", "unix", *_CLUSTERS) and rest:
        return _redis_store(function, store)
    if scheme in ("valkey", "valkeys"):
        redis = f"redis{scheme.removeprefix('valkey')}"
        raise LocalError(f'{function}(): Valkey has the protocol of Redis: write store="{redis}://…", not {scheme}://')
    # A URL may have a password, so that only its scheme is shown.
    raise LocalError(f"{function}(): store={shown(scheme)} is unknown; write store={_EXAMPLES}")


def _file(function: str, path: str) -> str:
    """Return the path of a URL of SQLite, which is relative without a fourth slash. Raises LocalError if its folder
    does not exist."""
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        is_meant = Path(f"/{path}").parent.is_dir() and not Path(path).is_absolute()
        from_root = f'; or write store="sqlite:////{path}": a path from the root has four slashes' if is_meant else ""
        raise LocalError(f"{function}(): store=: there is no folder {str(folder)!r}; create it{from_root}")
    return path


def _redis_store(function: str, url: str) -> Store:
    if find_spec("redis") is None:
        raise LocalError(f"{function}(): a store in Redis needs redis-py: pip install 'mcp-generated[redis]'")
    # redis-py would repeat commands of which it does not know whether they were run.
    never = load("redis.asyncio.retry").Retry(load("redis.backoff").NoBackoff(), 0)
    settings = {"retry": never, "socket_timeout": _SOCKET_SECONDS}
    scheme, _, rest = url.partition("://")
    try:
        if scheme in _CLUSTERS:
            client = _cluster(f"{_CLUSTERS[scheme]}://{rest}", settings)
            options = client.get_connection_kwargs()
        else:
            client = load("redis.asyncio").Redis.from_url(url, **settings)
            client.connection_pool.make_connection()  # It connects later, and reads all options of the URL now.
            options = client.connection_pool.connection_kwargs
    except _refusals() as error:
        raise LocalError(f"{function}(): store= is not a URL that redis-py reads: {_reason(error)}") from None
    path = urlsplit(url).path.strip("/")
    if scheme != "unix" and path and not path.isdecimal():
        raise LocalError(f"{function}(): store= names a database that is not a number; write redis://host/0")
    if options.get("decode_responses"):
        raise LocalError(f"{function}(): store= has decode_responses, but a store has bytes; remove this option")
    return cast("Store", load(f"{__package__}.redis").RedisStore(client))


def _refusals() -> tuple[type[Exception], ...]:
    errors = load("redis.exceptions")
    return ValueError, TypeError, errors.RedisError, errors.RedisClusterException


def _reason(error: Exception) -> str:
    """Return why redis-py refuses a URL, without what may be a part of a password. It passes options on as keywords."""
    if str(error).startswith("Port could not be cast"):
        return "its port is not a number; in a password, write / as %2F, ? as %3F and # as %23"
    unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    return str(error) if unknown is None else f"it has no option {unknown[1]!r}; remove it, or correct its name"


def _cluster(url: str, settings: dict[str, Any]) -> Any:
    """Return a client of the cluster that has the nodes of a URL, which are separated by commas."""
    cluster = load("redis.asyncio.cluster")
    parts = urlsplit(url)
    user, at, nodes = parts.netloc.rpartition("@")
    first, *others = [urlsplit(f"//{node}") for node in nodes.split(",")]
    return cluster.RedisCluster.from_url(
        urlunsplit(parts._replace(netloc=f"{user}{at}{first.netloc}")),
        startup_nodes=[cluster.ClusterNode(node.hostname or "localhost", node.port or _PORT) for node in others],
        socket_connect_timeout=_CONNECT_SECONDS,
        **settings,
    )
