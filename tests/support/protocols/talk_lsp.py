"""Talk to a language server with generated bindings of the Language Server Protocol, and print what it says as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from lsp_bindings import Client
from lsp_bindings import types as t

TEXT = "import os\n\n\ndef area(side: int) -> int:\n    return side * sid\n\n\narea(2)\n"


class Editor(Client):
    def __init__(self) -> None:
        super().__init__()
        self.diagnostics = asyncio.Queue[t.PublishDiagnosticsParams]()

    async def on_text_document_publish_diagnostics(self, params: t.PublishDiagnosticsParams) -> None:
        self.diagnostics.put_nowait(params)

    async def on_client_register_capability(self, params: t.RegistrationParams) -> None:
        pass


async def main(folder: Path, command: list[str]) -> None:
    uri = (folder / "area.py").as_uri()
    document = t.TextDocumentIdentifier(uri=uri)
    call = t.Position(line=7, character=1)
    async with Editor().start(*command, cwd=str(folder)) as editor:
        initialize = t.InitializeParams(
            process_id=None,
            root_path=None,
            root_uri=folder.as_uri(),
            workspace_folders=None,
            capabilities=t.ClientCapabilities(),
        )
        server = await editor.initialize(initialize, timeout=30)
        await editor.initialized(t.InitializedParams())
        item = t.TextDocumentItem(uri=uri, language_id="python", version=1, text=TEXT)
        await editor.text_document_did_open(t.DidOpenTextDocumentParams(text_document=item))
        published = await asyncio.wait_for(editor.diagnostics.get(), 30)
        hover = await editor.text_document_hover(t.HoverParams(text_document=document, position=call), timeout=30)
        definition: list[int] = []
        if server.capabilities.definition_provider:
            params = t.DefinitionParams(text_document=document, position=call)
            places = await editor.text_document_definition(params, timeout=30)
            definition = (
                [place.range.start.line for place in places if isinstance(place, t.Location)]
                if isinstance(places, list)
                else []
            )
        await editor.shutdown(timeout=30)
        await editor.exit()
    name = server.server_info.name if server.server_info is not None else ""
    lines = sorted(diagnostic.range.start.line for diagnostic in published.diagnostics)
    text = hover.contents.value if hover is not None and isinstance(hover.contents, t.MarkupContent) else ""
    print(json.dumps([name, lines, text, definition]))


asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
