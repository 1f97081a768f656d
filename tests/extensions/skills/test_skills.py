"""A server publishes skills, a client reads them: in each transport, of servers of each kind, and of each revision."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from support.http.sockets import listening
from support.project import package
from support.servers.skills import ENTRY, EXAMPLE, NOTES, other

from mcp_generated import REVISIONS, App, v2026_07_28
from mcp_generated.extensions import skills, tasks
from mcp_generated.extensions.skills import Client, Server, SyncClient
from mcp_generated.extensions.skills import types as t
from mcp_products.skills.client import VerifiedSkill
from mcp_products.skills.directory import SkillDirectory
from mcp_products.skills.server import SkillServerMixin
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.errors import LocalError, ProtocolViolationError, RemoteJSONRPCError

SKILLS = "io.modelcontextprotocol/skills"
INVALID_PARAMS = -32602


def app(**settings: Any) -> App:
    application = App("skills", **settings)
    application.skills(EXAMPLE / "skills")
    return application


# ---- in each transport -----------------------------------------------------------------------------------------------


async def use(client: Client) -> None:
    """All that the extension has."""
    server = client.server.model_dump() if client.server is not None else {}
    assert server["capabilities"]["extensions"] == {SKILLS: {"directoryRead": True}}
    assert "resources" in server["capabilities"]
    names = [skill.frontmatter.name async for skill in client.iter_skills()]
    assert names == ["release-notes", "code-review"]
    assert (await client.get_skill(uri=NOTES)).skill.uri == NOTES
    children = [child async for child in client.iter_directory(uri="skill://release-notes")]
    assert [(child.name, child.mime_type) for child in children] == [
        ("release-notes", "text/markdown"),
        ("templates", "inode/directory"),
    ]
    held = await VerifiedSkill.fetch(client, NOTES)
    assert (await held.load()).startswith("---\nname: release-notes\n")
    assert b"WHAT a user can do now" in await held.read("templates/entry.md")
    for request in (client.get_skill, client.read_directory, client.read_resource):
        with pytest.raises(RemoteJSONRPCError) as refused:
            await request(uri="skill://none/SKILL.md")
        assert refused.value.code == INVALID_PARAMS
    with pytest.raises(RemoteJSONRPCError, match="directory not found"):
        await client.read_directory(uri=NOTES)


@pytest.mark.long
async def test_skills_over_stdio() -> None:
    async with Client.stdio(sys.executable, str(EXAMPLE / "server.py")) as client:
        await use(client)


async def test_skills_over_http() -> None:
    async with listening(app().asgi()) as port, Client.http(f"http://127.0.0.1:{port}/mcp") as client:
        await use(client)


async def test_skills_of_a_server_that_is_a_class() -> None:
    async with Client.memory(other(lambda uri, text: [{"uri": uri, "text": text}])) as client:
        await use(client)


async def test_skills_of_a_server_of_the_core_that_has_another_extension_too() -> None:
    class Both(SkillServerMixin, v2026_07_28.Server):
        directories = [SkillDirectory(EXAMPLE / "skills")]

        async def get_task(self, ctx: Any, params: Any) -> Any:
            raise NotImplementedError

    server = Both(name="both", version="1", extensions=[skills, tasks])
    async with Client.memory(server) as client:
        assert [skill.frontmatter.name async for skill in client.iter_skills()] == ["release-notes", "code-review"]
        declared = client.server.model_dump()["capabilities"] if client.server is not None else {}
        assert declared["extensions"].keys() == {SKILLS, "io.modelcontextprotocol/tasks"}


def test_skills_without_an_event_loop() -> None:
    with SyncClient.memory(app().server) as client:
        assert [child.uri for child in client.iter_directory(uri="skill://release-notes/templates")] == [
            "skill://release-notes/templates/breaking.md",
            ENTRY,
        ]


async def test_lists_come_in_pages_and_an_entry_is_on_one_of_them() -> None:
    async with Client.memory(app(page_size=1).server) as client:
        first = await client.list_skills()
        assert len(first.skills) == 1 and first.next_cursor is not None
        assert len([skill async for skill in client.iter_skills()]) == 2
        assert len([child async for child in client.iter_directory(uri="skill://release-notes")]) == 2


async def test_a_client_without_the_extension_sees_resources(revision: str) -> None:
    async with package(revision, "client").Client.memory(*server_candidates(app().server, "all")) as client:
        shown = {
            resource.uri: (resource.name, resource.mime_type) for resource in (await client.list_resources()).resources
        }
        assert shown[NOTES] == ("release-notes", "text/markdown")
        [content] = (await client.read_resource(uri=ENTRY)).contents
        assert content.mime_type == "text/markdown"
        declared = client.server.model_dump()["capabilities"] if client.server is not None else {}
        assert ("extensions" in declared) is (revision == list(REVISIONS)[-1])


async def test_directories_of_a_server_that_does_not_declare_them_are_not_asked_for() -> None:
    class Plain(Server):
        async def list_skills(self, ctx: Any, params: Any) -> t.ListSkillsResult:
            return t.ListSkillsResult(skills=[])

        async def get_skill(self, ctx: Any, params: Any) -> t.GetSkillResult:
            raise NotImplementedError

    async with Client.memory(Plain(name="plain", version="1")) as client:
        assert (await client.list_skills()).skills == []
        with pytest.raises(ProtocolViolationError, match="directoryRead"):
            await client.read_directory(uri="skill://a")


def test_a_second_folder_stands_beside_the_first_under_another_path() -> None:
    application = app()
    with pytest.raises(LocalError, match="there is a skill at 'skill://release-notes/SKILL.md' already"):
        application.skills(EXAMPLE / "skills")
    application.skills(EXAMPLE / "skills", under="copies")
    with SyncClient.memory(application.server) as client:
        assert [skill.uri for skill in client.iter_skills()][2:] == [
            "skill://copies/release-notes/SKILL.md",
            "skill://copies/team/code-review/SKILL.md",
        ]


def test_an_app_that_is_served_takes_no_more_skills_and_those_of_a_mounted_one_are_refused() -> None:
    served = app()
    assert served.server is not None
    with pytest.raises(LocalError, match="exists already"):
        served.skills(EXAMPLE / "skills", under="again")
    outer = App("outer")
    outer.mount(app(), "inner")
    with pytest.raises(LocalError, match="a mounted app cannot publish skills"):
        outer.server


@pytest.mark.long
def test_the_example_prints_what_it_verified() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE / "client.py")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "templates/breaking.md: 71 bytes" in done.stdout
