"""manifest.toml of an extension: facts that its schema does not state, in at most forty lines.

| key           | meaning                                                                                      |
|---------------|----------------------------------------------------------------------------------------------|
| `identifier`  | its key in the `extensions` that a side declares                                             |
| `base`        | the revision it is mounted on                                                                |
| `source`      | the URL where its schema is published                                                        |
| `schema`      | its file there: a schema.ts, or a schema.json in which every reference is written out        |
| `settings`    | the type of the settings that a side declares under the identifier; empty for any object     |
| `prefix`      | the prefix of the names of its types, which is not part of its method names                  |
| `closed`      | what happens to objects that its schema closes: `open` accepts unknown properties of newer   |
|               | peers, `closed` rejects them                                                                 |
| `[sides]`     | for a protocol of its own: `client` connects, `server` is connected to; each with the        |
|               | `name` of its class and the type of its `capabilities`                                       |
| `version`     | the protocol version that such a protocol negotiates                                         |
| `[lifecycle]` | by role, the messages that initialize the connection, and those the runtime must know        |
| `[capabilities.client]` | by message, the capability that side must declare; `[capabilities.server]` likewise |
| `[roles]`     | by role union of the core protocol, the messages it adds to it                               |
| `[results]`   | by request of the core protocol, the interim results it adds                                 |
| `[headers]`   | by request of its own, the property of the params that a header repeats over HTTP            |
| `[declared]`  | by message of its own, the setting that must be declared for it                              |
| `[filters]`   | by notification of its own, the subscription filter, and the property of the params in it    |
| `[open]`      | by request of its own, the objects in its params that may have any values                    |

`clients_declare = false` means that its requests may come from clients that did not declare it.

An extension without roles only adds types. An extension with sides is a separate protocol: its roles name all its
messages, including those of the core protocol that it uses.
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
    """The description of one extension; `name` is the name of its folder and of its package."""

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
    """Return the manifest. Raises SchemaError if it cannot be read, or if its folder name is not a valid package
    name."""
    name = path.parent.name
    if not name.isidentifier():
        raise SchemaError(
            f"{path}: the folder name {name!r} is not a valid package name; rename the folder to a Python identifier"
        )
    try:
        manifest = Manifest(name=name, **tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise SchemaError(f"{path}: cannot be read as the manifest of an extension: {error}") from error
    if manifest.closed not in get_args(Closed):
        raise SchemaError(f"{path}: closed = {manifest.closed!r} is unknown; set it to {' or '.join(get_args(Closed))}")
    return manifest
