"""What a server gives goes in, and is held against the entry of the skill: each way in which it can be another."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from support.servers.skills import ENTRY, NOTES, other

from mcp_generated import App
from mcp_generated.extensions.skills import Client, Server
from mcp_generated.extensions.skills import types as t
from mcp_products.skills.client import VerifiedSkill
from mcp_products.skills.entry import MAX_BYTES, MAX_FILES, sha256_digest
from mcp_runtime.errors import LocalError, SkillVerificationError


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (lambda uri, text: [{"uri": uri, "text": text.replace("oldest", "newest")}], "has the digest sha256:"),
        (lambda uri, text: [{"uri": uri, "text": f"{text} "}], "has 515 bytes, but the entry has 514"),
        (lambda uri, text: [{"uri": uri, "text": text[:-1]}], "has 513 bytes, but the entry has 514"),
        (lambda uri, text: [], "other or additional contents"),
        (lambda uri, text: [{"uri": uri, "text": text}] * 2, "other or additional contents"),
        (lambda uri, text: [{"uri": ENTRY, "text": text}], "other or additional contents"),
        (lambda uri, text: [{"uri": uri, "text": text}, {"uri": ENTRY, "text": ""}], "other or additional contents"),
    ],
)
async def test_what_is_not_what_the_entry_promises_is_not_given(contents: Any, reason: str) -> None:
    async with Client.memory(other(contents)) as client:
        held = await VerifiedSkill.fetch(client, NOTES)
        with pytest.raises(SkillVerificationError, match=reason):
            await held.load()


async def test_a_blob_that_is_no_base64_is_refused() -> None:
    class Careless(Client):
        """Lets through what no server of ours would send."""

        async def read_resource(self, *, uri: str, **settings: Any) -> t.ReadResourceResult:
            return t.ReadResourceResult(contents=[t.BlobResourceContents(uri=uri, blob="!!!")])

    with pytest.raises(SkillVerificationError, match="invalid base64"):
        await VerifiedSkill(Careless.memory(reading(HEAD)), walk()).load()


async def test_a_blob_is_judged_by_its_bytes() -> None:
    server = other(lambda uri, text: [{"uri": uri, "blob": base64.b64encode(text.encode()).decode()}])
    async with Client.memory(server) as client:
        held = await VerifiedSkill.fetch(client, NOTES)
        assert (await held.load()).startswith("---")


@pytest.mark.parametrize("path", ["more.md", "../team/code-review/SKILL.md", "templates/../SKILL.md", "/SKILL.md", ""])
async def test_a_file_that_the_entry_does_not_list_is_not_even_asked_for(path: str) -> None:
    server = other(lambda uri, text: [{"uri": uri, "text": text}])
    async with Client.memory(server) as client:
        held = await VerifiedSkill.fetch(client, NOTES)
        with pytest.raises(SkillVerificationError, match="is not among the files"):
            await held.read(path)
    assert server.read == []


async def test_holding_a_skill_reads_no_file() -> None:
    server = other(lambda uri, text: [{"uri": uri, "text": text}])
    async with Client.memory(server) as client:
        roots = [VerifiedSkill(client, skill).entry.root async for skill in client.iter_skills()]
        assert roots[0] == "skill://release-notes"
    assert server.read == []


def walk(**changes: Any) -> dict[str, Any]:
    """An entry of a small skill, with changes."""
    data = b"---\nname: walk\ndescription: d\n---\n"
    own = {"uri": "skill://walk/SKILL.md", "digest": sha256_digest(data), "size": len(data)}
    return {"uri": own["uri"], "frontmatter": {"name": "walk", "description": "d"}, "resources": [own], **changes}


async def loaded(entry: dict[str, Any], text: str, **settings: Any) -> str:
    async with Client.memory(reading(text)) as client:
        return await VerifiedSkill(client, entry, **settings).load()


def reading(text: str) -> Server:
    class Reading(Server):
        async def read_resource(self, ctx: Any, params: Any) -> t.ReadResourceResult:
            return t.ReadResourceResult.model_validate(
                {"contents": [{"uri": params.uri, "text": text}], "ttlMs": 0, "cacheScope": "private"}
                | {"resultType": "complete"}
            )

    return Reading(name="reading", version="1")


HEAD = "---\nname: walk\ndescription: d\n---\n"


@pytest.mark.parametrize(
    ("frontmatter", "fields"),
    [
        ({"description": "other"}, "'description'"),
        ({"license": "MIT"}, "'license'"),
        ({"version": True}, "'version'"),
    ],
)
async def test_front_matter_is_compared_field_by_field(frontmatter: dict[str, Any], fields: str) -> None:
    front_matter = {"name": "walk", "description": "d", **frontmatter}
    text = HEAD if "version" not in front_matter else HEAD.replace("\n---\n", "\nversion: 1\n---\n")
    data = text.encode()
    resources = [{"uri": "skill://walk/SKILL.md", "digest": sha256_digest(data), "size": len(data)}]
    with pytest.raises(SkillVerificationError, match=rf"other front matter than the entry: {fields}(\n|$)"):
        await loaded(walk(frontmatter=front_matter, resources=resources), text)


async def test_a_dynamic_skill_is_refused_unless_it_is_wanted_and_then_its_front_matter_counts() -> None:
    entry = walk(resources="dynamic")
    with pytest.raises(SkillVerificationError, match="is dynamic"):
        await loaded(entry, HEAD)
    assert await loaded(entry, HEAD, dynamic=True) == HEAD
    with pytest.raises(SkillVerificationError, match="other front matter"):
        await loaded(entry, HEAD.replace("walk", "run"), dynamic=True)
    with pytest.raises(SkillVerificationError, match="makes the skill larger than"):
        await loaded(entry, HEAD + "x" * MAX_BYTES, dynamic=True)
    async with Client.memory(reading(HEAD)) as client:
        held = VerifiedSkill(client, entry, dynamic=True)
        with pytest.raises(SkillVerificationError, match="not among the files"):
            await held.read("../run/SKILL.md")
        with pytest.raises(LocalError, match="cannot be bound"):
            held.approval


def file(uri: str = "skill://walk/a.md", digest: str = f"sha256:{'0' * 64}", size: Any = 1) -> dict[str, Any]:
    return {"uri": uri, "digest": digest, "size": size}


OWN = walk()["resources"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"resources": None}, 'neither a list of files nor "dynamic"'),
        ({"resources": "some"}, "neither a list of files"),
        ({"resources": []}, "does not list its own SKILL.md"),
        ({"resources": [*OWN, *OWN]}, "twice"),
        ({"resources": [*OWN, file("skill://run/a.md")]}, "not in its directory"),
        ({"resources": [*OWN, file("skill://walk/../a.md")]}, "not in its directory"),
        ({"resources": [*OWN, file("skill://walk/%2e%2E/a.md")]}, "not in its directory"),
        ({"resources": [*OWN, file("skill://walk/%252e%252e/a.md")]}, "not in its directory"),
        ({"resources": [*OWN, file("skill://walk/a%2f..%2fb.md")]}, "not in its directory"),
        ({"resources": [*OWN, file("skill://walk/a%5c..%5cb.md")]}, "not in its directory"),
        ({"resources": [*OWN, file("skill://walk//a.md")]}, "not in its directory"),
        ({"resources": [*OWN, file("skill://walk/a.md\n")]}, "not in its directory"),
        ({"resources": [*OWN, file(digest=f"sha256:{'A' * 64}")]}, "an invalid digest"),
        ({"resources": [*OWN, file(digest="md5:0")]}, "an invalid digest"),
        ({"resources": [*OWN, file(size=-1)]}, "must be a number of bytes"),
        ({"resources": [*OWN, file(size=True)]}, "must be a number of bytes"),
        ({"resources": [*OWN, file(size=MAX_BYTES)]}, "more than 16777216"),
        ({"resources": [*OWN, *(file(f"skill://walk/{n}") for n in range(MAX_FILES))]}, "has 513 files"),
        ({"uri": "skill://walk/README.md"}, "not list its own|not in its directory"),
        ({"uri": "skill://SKILL.md"}, "does not list its own"),
        ({"uri": "skill://a/../walk/SKILL.md", "resources": "dynamic"}, "not the URI of a SKILL.md"),
        ({"uri": "skill://%2e%2e/walk/SKILL.md", "resources": "dynamic"}, "not the URI of a SKILL.md"),
        ({"uri": "walk/SKILL.md", "resources": "dynamic"}, "not the URI of a SKILL.md"),
        ({"frontmatter": {"name": "run", "description": "d"}}, "has the name 'run', but its directory is 'walk'"),
        ({"frontmatter": {"name": "wa/lk", "description": "d"}}, "has the name 'wa/lk'"),
        ({"frontmatter": {"name": "walk"}}, "needs a description"),
    ],
)
def test_an_entry_that_breaks_a_rule_is_refused_before_anything_is_read(changes: dict[str, Any], reason: str) -> None:
    client = Client.memory(reading(HEAD))
    with pytest.raises(SkillVerificationError, match=reason):
        VerifiedSkill(client, walk(**changes))


def test_an_approval_changes_with_every_file_and_with_nothing_else() -> None:
    client = Client.memory(reading(HEAD))
    first = VerifiedSkill(client, walk(resources=[*OWN, file()])).approval
    assert first == VerifiedSkill(client, walk(resources=[file(), *OWN])).approval
    others = [walk(), walk(resources=[*OWN, file(digest=f"sha256:{'1' * 64}")])]
    assert first not in {VerifiedSkill(client, entry).approval for entry in others}


async def test_an_entry_is_had_anew_when_the_skill_has_changed(tmp_path: Path) -> None:
    (tmp_path / "walk").mkdir()
    skill = tmp_path / "walk" / "SKILL.md"
    skill.write_text(HEAD)
    changing = App("changing")
    changing.skills(tmp_path)
    async with Client.memory(changing.server) as client:
        held = await VerifiedSkill.fetch(client, "skill://walk/SKILL.md")
        skill.write_text(f"{HEAD}More.\n")
        with pytest.raises(SkillVerificationError, match="bytes"):
            await held.load()
        again = await held.refresh()
        assert again.approval != held.approval and (await again.load()).endswith("More.\n")
