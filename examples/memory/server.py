"""A knowledge graph of entities and relations that survives a restart.

Run it: `python examples/memory/server.py memory.json`; the file is created at the first write.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, Field, ValidationError

from mcp_generated import App, ToolError

MAX_ITEMS: Final = 10_000  # Of entities, and of relations.
Name = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(min_length=1, max_length=2000)]


class Entity(BaseModel):
    """An entity and its observations."""

    name: Name
    kind: Name
    observations: list[Text] = []


class Relation(BaseModel):
    """A relation between two entities; the verb is in the active voice."""

    source: Name
    verb: Name
    target: Name


class Graph(BaseModel):
    """All entities and relations."""

    entities: list[Entity] = []
    relations: list[Relation] = []


class Memory:
    """A graph in a file, which is replaced atomically. A lock protects it, because tools run in worker threads."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self.graph = Graph.model_validate_json(file.read_bytes()) if file.exists() else Graph()

    def change(self, entities: list[Entity], relations: list[Relation], removed: list[str]) -> Graph:
        """Add entities and relations, remove entities with their relations, and return the new graph."""
        with self._lock:
            by_name = {entity.name: entity for entity in self.graph.entities if entity.name not in removed}
            for new in entities:
                old = by_name.get(new.name, Entity(name=new.name, kind=new.kind))
                seen = dict.fromkeys([*old.observations, *new.observations])
                by_name[new.name] = Entity(name=new.name, kind=new.kind, observations=list(seen))
            links = {(link.source, link.verb, link.target): link for link in (*self.graph.relations, *relations)}
            remaining = [link for link in links.values() if not {link.source, link.target} & set(removed)]
            for relation in relations:
                if missing := {relation.source, relation.target} - by_name.keys():
                    raise ToolError(f"There is no entity {sorted(missing)[0]!r}.")
            if max(len(by_name), len(remaining)) > MAX_ITEMS:
                raise ToolError("The memory is full; forget something first.")
            graph = Graph(entities=list(by_name.values()), relations=remaining)
            self._save(graph)
            self.graph = graph
            return graph

    def _save(self, graph: Graph) -> None:
        handle, temporary = tempfile.mkstemp(dir=self._file.parent, prefix=".memory")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(graph.model_dump_json(indent=1))
            os.replace(temporary, self._file)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise ToolError("The memory cannot be written.") from None


try:
    memory = Memory(Path(sys.argv[1] if len(sys.argv) > 1 else "memory.json").resolve())
except (OSError, ValidationError) as error:
    sys.exit(f"The memory cannot be read: {str(error).splitlines()[0]}")
app = App("memory", "Remembers entities and their relations.", version="1.0")


@app.tool(annotations={"idempotentHint": True, "destructiveHint": False, "openWorldHint": False})
def remember(entities: list[Entity], relations: list[Relation] = []) -> str:  # noqa: B006
    """Add entities, observations of existing ones, and relations between them."""
    graph = memory.change(entities, relations, [])
    return f"{len(graph.entities)} entities, {len(graph.relations)} relations"


@app.tool(annotations={"idempotentHint": True, "destructiveHint": True, "openWorldHint": False})
def forget(names: list[str]) -> str:
    """Forget entities, and their relations."""
    graph = memory.change([], [], names)
    return f"{len(graph.entities)} entities, {len(graph.relations)} relations"


@app.tool(annotations={"readOnlyHint": True, "openWorldHint": False})
def search(words: str) -> Graph:
    """Find the entities that contain all these words, and their relations."""
    entities = memory.graph.entities
    texts = {entity.name: " ".join((entity.name, entity.kind, *entity.observations)).lower() for entity in entities}
    matches = {name for name, text in texts.items() if all(word in text for word in words.lower().split())}
    return Graph(
        entities=[entity for entity in entities if entity.name in matches],
        relations=[link for link in memory.graph.relations if {link.source, link.target} & matches],
    )


@app.resource("memory://graph", mime_type="application/json")
def graph() -> Graph:
    """Return the whole graph."""
    return memory.graph


if __name__ == "__main__":
    app.run("stdio")
