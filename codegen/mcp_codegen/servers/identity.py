"""The name of a live server, as its result of `initialize` or of the discovery has it."""

from __future__ import annotations

from ..json_types import JsonObject, is_object


def server_identity(server: object) -> JsonObject:
    """Return `name`, `version` and so on of the server's own result, empty if it has none."""
    fields = server if is_object(server) else {}
    if is_object(info := fields.get("serverInfo")):
        return info
    meta = fields.get("_meta")
    values = meta.items() if is_object(meta) else ()
    for key, value in values:
        if key.endswith("/serverInfo") and is_object(value):
            return value
    return {}
