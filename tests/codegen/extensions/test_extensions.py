"""Schemas of extensions go in: what they add to a revision is generated, and spoken; what contradicts it is refused."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support.project import SERVERS

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.errors import SchemaError
from mcp_codegen.extensions.manifest import Manifest, read_manifest
from mcp_codegen.extensions.mount import (
    MountedExtension,
    mount,
    mount_on_base,
    mounted_extensions,
    read_extension_schema,
)
from mcp_codegen.extensions.schemas import extension_schema
from mcp_codegen.generate import ExtensionPackage
from mcp_codegen.paths import data_path, template_folders
from mcp_generated.extensions import tasks as tasks_extension
from mcp_generated.extensions.skills import methods as skills
from mcp_generated.extensions.tasks import Client
from mcp_generated.extensions.tasks import methods as tasks
from mcp_generated.extensions.tasks import types as t
from mcp_generated.v2026_07_28 import Client as PlainClient
from mcp_generated.v2026_07_28 import Server as PlainServer
from mcp_runtime.errors import InvalidResponseError, ProtocolViolationError, RemoteError
from mcp_runtime.protocol.lifecycle import parse_capability_path
from mcp_runtime.protocol.revision import META, Request

TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
SERVER = str(SERVERS / "manual_tasks.py")
SCHEMAS = SchemaCatalog(data_path("schema"))
NEWEST = list(SCHEMAS.pins)[-1]

VENDOR = """
import type { JSONRPCRequest, JSONRPCNotification, Result } from "./core.js";

/** @category `acme/paint` */
export type PaintRequest =
  JSONRPCRequest & { method: "acme/paint"; params: { colour: "red" | "blue"; layers?: number } };
export type PaintResult = Result & { area: number };
export type DriedNotification =
  JSONRPCNotification & { method: "notifications/acme/dried"; params: { colour: string } };
"""
ROLES = {"ClientRequest": ["PaintRequest"], "ServerNotification": ["DriedNotification"]}


def client(**settings: Any) -> Client:
    return Client.stdio(sys.executable, SERVER, name="c", version="1", **settings)


def mounted(text: str, **settings: Any) -> MountedExtension:
    manifest = Manifest("acme", "com.acme/paint", NEWEST, **settings)
    core, _ = SCHEMAS.normalized(NEWEST)
    return mount(
        manifest, extension_schema(text, "acme"), core, SCHEMAS.revision(NEWEST), SCHEMAS.overlay, SCHEMAS.docs
    )


async def test_a_tasks_client_and_a_tasks_server_talk_over_stdio() -> None:
    async with client(capabilities={**TASKS, "elicitation": {}}) as speaking:
        assert isinstance(await speaking.call_tool(name="greet"), t.CallToolResult)
        created = await speaking.call_tool(name="delete")
        assert isinstance(created, t.CreateTaskResult)
        waiting = await speaking.get_task(task_id=created.task_id)
        assert waiting.status == "input_required"
        assert waiting.input_requests is not None
        assert list(waiting.input_requests) == ["sure"]
        await speaking.update_task(task_id=created.task_id, input_responses={"sure": t.ElicitResult(action="accept")})
        done = await speaking.get_task(task_id=created.task_id)
        assert done.status == "completed"
        assert done.result is not None
        assert done.result["content"][0]["text"] == "deleted"


@pytest.mark.long
async def test_a_task_is_cancelled_and_one_that_is_not_there_is_refused() -> None:
    async with client(capabilities={**TASKS, "elicitation": {}}) as speaking:
        created = await speaking.call_tool(name="delete")
        assert isinstance(created, t.CreateTaskResult)
        await speaking.cancel_task(task_id=created.task_id)
        assert (await speaking.get_task(task_id=created.task_id)).status == "cancelled"
        with pytest.raises(RemoteError, match="there is no task 'other'"):
            await speaking.get_task(task_id="other")


@pytest.mark.long
async def test_who_has_not_declared_the_extension_cannot_use_its_methods() -> None:
    async with client() as speaking:
        with pytest.raises(ProtocolViolationError, match="io.modelcontextprotocol/tasks"):
            await speaking.get_task(task_id="any")


class Plain(PlainServer):
    """A server of the core that has a task at hand for every call."""

    task: ClassVar[dict[str, Any]] = {
        "task_id": "one",
        "status": "working",
        "created_at": "2026",
        "last_updated_at": "2026",
        "ttl_ms": None,
    }

    async def call_tool(self, ctx: Any, params: Any) -> Any:
        return t.CreateTaskResult(**self.task)

    async def get_task(self, ctx: Any, params: Any) -> Any:
        return t.GetTaskResult(**self.task)


async def test_extensions_are_added_to_a_server_and_to_a_client_of_the_core() -> None:
    server = Plain(name="s", version="1", extensions=[tasks_extension])
    assert server.capabilities["extensions"] == TASKS["extensions"]
    async with Client.memory(server, extensions=[tasks_extension]) as speaking:
        assert isinstance(await speaking.call_tool(name="any"), t.CreateTaskResult)
        assert (await speaking.get_task(task_id="one")).status == "working"
    async with PlainClient.memory(server) as plain:
        with pytest.raises(InvalidResponseError, match="content: Field required"):
            await plain.call_tool(name="any")


@pytest.mark.long
@pytest.mark.parametrize("capabilities", [{}, {"extensions": {}}, {"extensions": {"io.modelcontextprotocol/ui": {}}}])
async def test_a_server_names_the_extension_that_a_request_did_not_declare(capabilities: dict[str, Any]) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, SERVER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    meta = {f"{META}protocolVersion": NEWEST, f"{META}clientCapabilities": capabilities}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"taskId": "any", "_meta": meta}}
    try:
        output, _ = await asyncio.wait_for(program.communicate(json.dumps(request).encode() + b"\n"), 15)
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    error = json.loads(output)["error"]
    assert error["code"] == -32021
    assert error["data"] == {"requiredCapabilities": TASKS}


@pytest.mark.parametrize(
    "path", sorted(data_path("schema").glob("extensions/*/manifest.toml")), ids=lambda path: path.parent.name
)
def test_a_manifest_has_at_most_forty_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 40


def test_the_published_extensions_add_their_own_types_alone() -> None:
    extensions = {extension.manifest.name: extension for extension, _ in mounted_extensions(SCHEMAS, NEWEST)}
    core = set(SCHEMAS.revision(NEWEST).types)
    assert {"CreateTaskResult", "GetTaskRequestParams", "DetailedTask"} <= extensions["tasks"].added_types
    assert {"ServerCard", "Remote", "KeyValueInput"} <= extensions["server_card"].added_types
    assert not extensions["server_card"].added_types & core
    assert {"Icon", "MetaObject"} <= core


def test_a_manifest_says_which_setting_a_message_needs_and_whether_clients_declare_the_extension() -> None:
    settings = "export interface Settings { glossy?: boolean }"
    ours = mounted(
        VENDOR + settings,
        roles=ROLES,
        settings="Settings",
        declared={"PaintRequest": "glossy"},
        clients_declare=False,
    )
    [paint] = [row for row in ours.revision.methods if row.method == "acme/paint"]
    assert paint.capability == "server.extensions.com.acme/paint#glossy" and not paint.requirements
    assert parse_capability_path(paint.capability) == ("server", ("extensions", "com.acme/paint", "glossy"))


def test_two_extensions_of_one_revision_are_joined() -> None:
    both = tasks.REVISION.extended_with(skills.REVISION)
    assert both.table("client_to_server").keys() == {
        *tasks.REVISION.table("client_to_server"),
        *skills.REVISION.table("client_to_server"),
    }
    call = next(row for row in both.rows if row.name == "call_tool")
    assert isinstance(call, Request) and t.CreateTaskResult in call.result_types
    assert (
        skills.REVISION.extended_with(tasks.REVISION).table("server_to_client").keys()
        == both.table("server_to_client").keys()
    )
    assert both.http.name_params == tasks.REVISION.http.name_params


def test_a_vendors_own_schema_becomes_rows_types_and_gates() -> None:
    ours = mounted(VENDOR, roles=ROLES)
    rows = {row.method: row for row in ours.revision.methods}
    paint, dried = rows["acme/paint"], rows["notifications/acme/dried"]
    assert (paint.direction, paint.params, paint.result) == ("client_to_server", "PaintRequestParams", "PaintResult")
    assert paint.capability == dried.capability == "server.extensions.com.acme/paint"
    assert [gate.capability for gate in paint.requirements] == ["client.extensions.com.acme/paint"]
    package = ExtensionPackage(ours, "0" * 64, template_folders())
    client = package.modules()["client.py"]
    assert "async def paint(" in client and "def on_dried(" in client
    assert "class CallToolResult" not in package.types()


def test_an_extension_without_types_has_those_of_the_core_protocol() -> None:
    types = ExtensionPackage(mounted("export const A = 'a';\n"), "0" * 64, template_folders()).types()
    assert f"from ...v{NEWEST.replace('-', '_')}.types import *" in types and "class " not in types


@pytest.mark.long
def test_what_a_schema_closes_is_open_or_refuses_what_is_unknown_as_the_manifest_says() -> None:
    folder = data_path("schema") / "extensions" / "apps"
    _, own = read_extension_schema(folder / "schema.json")
    manifest = replace(read_manifest(folder / "manifest.toml"), closed="closed")
    extension = mount_on_base(SCHEMAS, manifest, own)
    assert (
        extension.revision.types["McpUiResourceCsp"].closed and not extension.revision.types["McpUiHostContext"].closed
    )
    types = ExtensionPackage(extension, "0" * 64, template_folders()).types()
    classes = {source.split("(")[0]: source for source in types.split("\nclass ")}
    assert 'model_config = ConfigDict(extra="forbid")' in classes["McpUiResourceCsp"]
    assert "model_config" not in classes["McpUiHostContext"]
    opened = mount_on_base(SCHEMAS, replace(manifest, closed="open"), own)
    assert not any(definition.closed for definition in opened.revision.objects())


@pytest.mark.parametrize(
    ("text", "settings", "reason"),
    [
        ("export interface Tool { wheels: number }", {}, "Tool is a different type in"),
        ('import type { Wheel } from "./core.js";\nexport interface Car { wheel: Wheel }', {}, "imports Wheel"),
        (VENDOR.replace('acme/paint"', 'tools/list"'), {"roles": ROLES}, "is in "),
        (VENDOR, {"roles": {"ClientRequest": ["Absent"]}}, "'Absent', which is not defined"),
        (VENDOR, {"roles": {"Painter": []}}, "the role 'Painter'"),
        (VENDOR, {"roles": ROLES, "settings": "Colours"}, "Colours is not defined"),
        (VENDOR, {"roles": ROLES, "declared": {"PaintRequest": "glossy"}}, "'glossy', which PaintRequest needs"),
        (VENDOR, {"roles": ROLES, "declared": {"SingRequest": "loud"}}, "SingRequest"),
        (
            VENDOR,
            {"roles": ROLES, "results": {"CallToolRequest": ["PaintResult"]}},
            "no constant tells PaintResult apart",
        ),
        (VENDOR, {"roles": ROLES, "results": {"SingRequest": ["PaintResult"]}}, "SingRequest"),
        (VENDOR, {"roles": ROLES, "headers": {"SingRequest": "song"}}, "SingRequest"),
    ],
)
def test_what_contradicts_the_core_or_is_not_there_is_refused(text: str, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        mounted(text, **settings)
