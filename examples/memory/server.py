"""What a model wants to remember goes in; a graph of entities and relations comes out, also after a restart.

Run it: `python examples/memory/server.py memory.json`; the file is made when there is something to remember.
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

MOST: Final = 10_000  # Entities, and relations.
Name = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(min_length=1, max_length=2000)]


class Entity(BaseModel):
    """Something that is known, and what is known of it."""

    name: Name
    kind: Name
    observations: list[Text] = []


class Relation(BaseModel):
    """How one entity stands to another, in the active voice."""

    source: Name
    verb: Name
    target: Name


class Graph(BaseModel):
    """All that is remembered."""

    entities: list[Entity] = []
    relations: list[Relation] = []


class Memory:
    """A graph in a file, which is replaced as a whole; a lock, because tools run in worker threads."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self.graph = Graph.model_validate_json(file.read_bytes()) if file.exists() else Graph()

    def change(self, entities: list[Entity], relations: list[Relation], gone: list[str]) -> Graph:
        """Add these, take those away with their relations, and return what there is now."""
        with self._lock:
            known = {each.name: each for each in self.graph.entities if each.name not in gone}
            for new in entities:
                old = known.get(new.name, Entity(name=new.name, kind=new.kind))
                seen = dict.fromkeys([*old.observations, *new.observations])
                known[new.name] = Entity(name=new.name, kind=new.kind, observations=list(seen))
            links = {(each.source, each.verb, each.target): each for each in (*self.graph.relations, *relations)}
            kept = [each for each in links.values() if not {each.source, each.target} & set(gone)]
            for each in relations:
                if missing := {each.source, each.target} - known.keys():
                    raise ToolError(f"There is no entity {sorted(missing)[0]!r}.")
            if max(len(known), len(kept)) > MOST:
                raise ToolError("The memory is full; forget something first.")
            graph = Graph(entities=list(known.values()), relations=kept)
            self._save(graph)
            self.graph = graph
            return graph

    def _save(self, graph: Graph) -> None:
        handle, waiting = tempfile.mkstemp(dir=self._file.parent, prefix=".memory")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(graph.model_dump_json(indent=1))
            os.replace(waiting, self._file)
        except OSError:
            Path(waiting).unlink(missing_ok=True)
            raise ToolError("The memory cannot be written.") from None


try:
    memory = Memory(Path(sys.argv[1] if len(sys.argv) > 1 else "memory.json").resolve())
except (OSError, ValidationError) as fault:
    sys.exit(f"The memory cannot be read: {str(fault).splitlines()[0]}")
app = App("memory", "Remembers entities and how they stand to each other.", version="1.0")


@app.tool(annotations={"idempotentHint": True, "destructiveHint": False, "openWorldHint": False})
def remember(entities: list[Entity], relations: list[Relation] = []) -> str:  # noqa: B006
    """Add entities, observations of known ones, and relations between them."""
    graph = memory.change(entities, relations, [])
    return f"{len(graph.entities)} entities, {len(graph.relations)} relations"


@app.tool(annotations={"idempotentHint": True, "destructiveHint": True, "openWorldHint": False})
def forget(names: list[str]) -> str:
    """Forget entities, and their relations."""
    graph = memory.change([], [], names)
    return f"{len(graph.entities)} entities, {len(graph.relations)} relations"


@app.tool(annotations={"readOnlyHint": True, "openWorldHint": False})
def search(words: str) -> Graph:
    """The entities in which all these words occur, and all their relations."""
    wanted = words.lower().split()
    texts = {each.name: " ".join((each.name, each.kind, *each.observations)).lower() for each in memory.graph.entities}
    found = {name for name, text in texts.items() if all(word in text for word in wanted)}
    return Graph(
        entities=[each for each in memory.graph.entities if each.name in found],
        relations=[each for each in memory.graph.relations if {each.source, each.target} & found],
    )


@app.resource("memory://graph", mime_type="application/json")
def graph() -> Graph:
    """All that is remembered."""
    return memory.graph


if __name__ == "__main__":
    app.run("stdio")
