"""manifest.toml of an extension goes in: what its schema does not say, in at most forty lines.

| key           | meaning                                                                                      |
|---------------|----------------------------------------------------------------------------------------------|
| `identifier`  | its name among the extensions that a side declares                                           |
| `base`        | the revision it is mounted on                                                                |
| `source`      | where its schema is published                                                                |
| `schema`      | its file there: a schema.ts, or a schema.json in which every reference is written out        |
| `settings`    | the type of what a side declares with the identifier; empty for any object                   |
| `prefix`      | what the names of its types begin with, and those of its methods do not                      |
| `closed`      | what becomes of objects that its schema closes: they are `open`, so that newer peers are     |
|               | understood, or stay `closed`, so that an unknown property is refused                         |
| `[sides]`     | who talks, where it is a conversation of its own: `client` opens it, `server` answers; each  |
|               | with the `name` of its class and the type of its `capabilities`                              |
| `version`     | what such a conversation agrees on                                                           |
| `[lifecycle]` | by role, the messages by which it opens, and those the runtime has to know                   |
| `[capabilities.client]` | by message, what that side has to have declared before it; `[capabilities.server]` likewise |
| `[roles]`     | by role union of the core, the messages it adds to it                                        |
| `[results]`   | by request of the core, the types that may answer it before its result                       |
| `[headers]`   | by request of its own, the property of the params that a header repeats over HTTP            |
| `[declared]`  | by message of its own, the setting that has to be declared for it                            |
| `[filters]`   | by notification of its own, the list by which clients choose it, and what of the params is in |
| `[open]`      | by request of its own, the objects among its params whose values may be anything             |

`clients_declare = false` says that its requests may come from clients that have not declared it themselves.

An extension without roles is one of documents: it adds types alone. One with sides has no part in the conversations of
the core: its roles name all messages there are in its own, those it takes from the core too.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from ..errors import SchemaError

Closed = Literal["open", "closed"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """How one extension is mounted; `name` is the name of its folder and of its package."""

    name: str
    identifier: str
    base: str
    source: str = ""
    schema: str = "schema.ts"
    settings: str = ""
    prefix: str = ""
    closed: Closed = "open"
    version: str = ""
    roles: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    results: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    declared: dict[str, str] = field(default_factory=dict[str, str])
    filters: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    open: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    clients_declare: bool = True
    sides: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    lifecycle: dict[str, str] = field(default_factory=dict[str, str])
    capabilities: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])


def read_manifest(path: Path) -> Manifest:
    """Raises SchemaError for one that cannot be read, or whose folder cannot be the name of a package."""
    name = path.parent.name
    if not name.isidentifier():
        raise SchemaError(f"{path}: the folder {name!r} cannot be the name of a package")
    try:
        manifest = Manifest(name=name, **tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as fault:
        raise SchemaError(f"{path}: cannot be read as the manifest of an extension: {fault}") from fault
    if manifest.closed not in get_args(Closed):
        raise SchemaError(f"{path}: closed is {manifest.closed!r}; objects are {' or '.join(get_args(Closed))}")
    return manifest
