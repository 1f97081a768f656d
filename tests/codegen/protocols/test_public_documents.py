"""Documents of other projects, from their packages: each becomes bindings whose types can all be built."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import BaseModel, TypeAdapter, ValidationError
from support.peers import node_peer, python_peer
from typing_extensions import TypeAliasType

from mcp_codegen.cli.main import main
from mcp_runtime.protocol.models import validator

ACP = "@agentclientprotocol/sdk@2.4.0"
OPEN_RPC = "@open-rpc/examples@1.7.2"
METAMASK = "@metamask/api-specs@0.15.0"
EXAMPLES = "@open-rpc/examples/build/service-descriptions"
# The package, the file, and how many messages it has.
DOCUMENTS: dict[str, tuple[str, str, int]] = {
    "acp-1": (ACP, "@agentclientprotocol/sdk/schema/v1/schema.json", 26),
    "acp-1-unstable": (ACP, "@agentclientprotocol/sdk/schema/v1/schema.unstable.json", 44),
    "acp-2": (ACP, "@agentclientprotocol/sdk/schema/v2/schema.json", 19),
    "acp-2-unstable": (ACP, "@agentclientprotocol/sdk/schema/v2/schema.unstable.json", 37),
    "ethereum-wallet": (METAMASK, "@metamask/api-specs/dist/build/openrpc.json", 55),
    "ethereum-multichain": (METAMASK, "@metamask/api-specs/dist/build/multichain-openrpc.json", 6),
    "petstore": (OPEN_RPC, f"{EXAMPLES}/petstore-openrpc.json", 3),
    "petstore-by-name": (OPEN_RPC, f"{EXAMPLES}/params-by-name-petstore-openrpc.json", 3),
    "petstore-expanded": (OPEN_RPC, f"{EXAMPLES}/petstore-expanded-openrpc.json", 4),
    "simple-math": (OPEN_RPC, f"{EXAMPLES}/simple-math-openrpc.json", 2),
    "links": (OPEN_RPC, f"{EXAMPLES}/link-example-openrpc.json", 6),
    "api-with-examples": (OPEN_RPC, f"{EXAMPLES}/api-with-examples-openrpc.json", 2),
}


def package_of(folder: Path, name: str, document: Path) -> tuple[ModuleType, int]:
    """Return the bindings of a document, and the number of its messages."""
    (folder / "document.json").write_bytes(document.read_bytes())
    format = "open-rpc" if "openrpc" in json.loads(document.read_text(encoding="utf-8")) else "json-schema"
    (folder / "protocol.toml").write_text(
        f'name = "Public"\nversion = "1"\ndocument = "document.json"\nformat = "{format}"\n'
        '[sides]\nclient = "Client"\nserver = "Agent"\n'
    )
    result = CliRunner().invoke(main, ["protocol", str(folder / "protocol.toml"), "--output", str(folder / name)])
    assert result.exit_code == 0, result.output
    messages = re.search(r"(\d+) messages", result.output)
    assert messages is not None
    sys.path.insert(0, str(folder))
    module = importlib.import_module(name)
    sys.path.remove(str(folder))
    return module, int(messages[1])


def built(types: ModuleType) -> int:
    """Return how many types of a module pydantic can build."""
    number = 0
    for value in vars(types).values():
        is_own = isinstance(value, type) and issubclass(value, BaseModel) and value.__module__ == types.__name__
        if is_own or isinstance(value, TypeAliasType):
            TypeAdapter(value)
            number += 1
    return number


@pytest.mark.edges
@pytest.mark.long
@pytest.mark.deadline(300)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_public_document_becomes_bindings(name: str, tmp_path: Path) -> None:
    requirement, file, messages = DOCUMENTS[name]
    package, found = package_of(tmp_path, name.replace("-", "_"), node_peer(requirement) / "node_modules" / file)
    assert found == messages
    assert built(package.types) > 0


@pytest.mark.long
@pytest.mark.deadline(300)
def test_messages_of_the_debug_adapter_protocol_are_read_as_its_document_says(tmp_path: Path) -> None:
    python = python_peer("debugpy==1.8.22")
    document = next(python.parent.parent.rglob("debugProtocol.json"))
    types = package_of(tmp_path, "dap_messages", document)[0].types
    assert built(types) > 200
    request: dict[str, Any] = {"seq": 1, "type": "request", "command": "setBreakpoints",
                               "arguments": {"source": {"path": "a.py"}, "breakpoints": [{"line": 3}]}}  # fmt: skip
    event = {"seq": 2, "type": "event", "event": "stopped", "body": {"reason": "breakpoint", "threadId": 1}}
    answer = {"seq": 3, "type": "response", "request_seq": 1, "success": True, "command": "threads",
              "body": {"threads": [{"id": 1, "name": "main"}]}}  # fmt: skip
    for name, message in (("SetBreakpointsRequest", request), ("StoppedEvent", event), ("ThreadsResponse", answer)):
        read = validator(getattr(types, name))(message)
        assert read.to_dict() == message
        for wrong in ({**message, "seq": "x"}, {**message, "type": "other"}, {key: message[key] for key in ("seq",)}):
            with pytest.raises(ValidationError):
                validator(getattr(types, name))(wrong)
