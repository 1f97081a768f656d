"""Folders of skills go in: what is published of them, what is refused, and that nothing leads out."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_products.skills.directory import SkillDirectory
from mcp_products.skills.entry import MAX_BYTES, MAX_FILES, SkillEntry
from mcp_products.skills.frontmatter import parse_front_matter
from mcp_runtime.errors import LocalError

HEAD = "---\nname: {}\ndescription: For tests.\n---\n\nDo it.\n"


def skill(folder: Path, name: str = "walk", text: str = HEAD) -> Path:
    """A skill in a folder; the folder of the skill."""
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(text.format(Path(name).name), encoding="utf-8")
    return folder / name


# ---- front matter ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 010", 10),
        ("a: 0x1F", 31),
        ("a: 0o17", 15),
        ("a: -1.5e3", -1500.0),
        ("a: yes", "yes"),
        ("a: 2024-01-01", "2024-01-01"),
        ("a: 12:30:45", "12:30:45"),
        ("a: true", True),
        ("a: ~", None),
        ("a:", None),
        ("a: '1'", "1"),
        ("a: |\n  one\n  two", "one\ntwo\n"),
        ("a: [1, {b: c}]", [1, {"b": "c"}]),
        ("a: {<<: {b: 1}}", {"<<": {"b": 1}}),
    ],
)
def test_front_matter_is_the_json_that_yaml_1_2_has_in_common_with_it(text: str, value: object) -> None:
    assert parse_front_matter(f"---\n{text}\n---\nrest: [".encode()) == {"a": value}


WORDS = st.text(st.characters(categories=("L", "N", "P", "S"), exclude_characters="\x85"), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.long
@given(st.dictionaries(WORDS, JSON, max_size=4))
@settings(max_examples=100)
def test_front_matter_that_is_json_is_read_as_json(value: dict[str, object]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert json.dumps(parse_front_matter(f"---\n{text}\n---\n".encode())) == json.dumps(value)


@pytest.mark.long
@given(st.fixed_dictionaries({}, optional={"uri": JSON, "frontmatter": JSON, "resources": JSON}))
@settings(max_examples=100)
def test_whatever_an_entry_is_it_is_one_or_is_refused_with_a_reason(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="^(has|is|lists|does) "):
        SkillEntry.parse(fields)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"name: x", "must begin with front matter"),
        (b"---\nname: x\n", "must begin with front matter"),
        (b"---\na: " + b"x" * 40_000 + b"\n---\n", "at most 32768 bytes"),
        (b"---\n---\n", "not a mapping"),
        (b"---\n- a\n---\n", "not a mapping"),
        (b"---\na: b: c\n---\n", "not YAML"),
        (b"---\na: \xff\n---\n", "not UTF-8"),
        (b"---\na: &x [1]\nb: [*x, *x]\n---\n", "an alias"),
        (b"---\na: !!python/object:os.system x\n---\n", "the tag"),
        (b"---\na: !!str 1\n---\n", "the tag"),
        (b"---\na: 1\na: 2\n---\n", "'a' twice"),
        (b"---\n1: a\n---\n", "not a string: 1"),
        (b"---\n[a]: b\n---\n", "not a string"),
        (b"---\na: .nan\n---\n", "no JSON form"),
        (b"---\na: 1e999\n---\n", "no JSON form"),
        (b"---\na: " + b"[" * 10_000 + b"\n---\n", "more than 32 levels"),
        (b"---\na: " + b"9" * 30_000 + b"\n---\n", "no JSON form"),
    ],
)
def test_front_matter_that_is_more_than_json_or_too_much_of_it_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_front_matter(data)


# ---- what is published -----------------------------------------------------------------------------------------------


def test_an_entry_has_every_file_with_its_digest_and_its_size(tmp_path: Path) -> None:
    folder = skill(tmp_path)
    (folder / "data").mkdir()
    (folder / "data" / "a picture.png").write_bytes(b"\x89PNG")
    entry = SkillDirectory(tmp_path).entry("skill://walk/SKILL.md")
    assert entry is not None and entry["frontmatter"] == {"name": "walk", "description": "For tests."}
    digest = hashlib.sha256(b"\x89PNG").hexdigest()
    picture = {"uri": "skill://walk/data/a%20picture.png", "digest": f"sha256:{digest}", "size": 4}
    assert [file["uri"] for file in entry["resources"]] == ["skill://walk/SKILL.md", picture["uri"]]
    assert picture in entry["resources"]


def test_the_folder_itself_may_be_a_skill_and_stand_under_a_path(tmp_path: Path) -> None:
    folder = skill(tmp_path)
    assert SkillDirectory(folder).uris() == ["skill://walk/SKILL.md"]
    assert SkillDirectory(folder, under="acme/legs").uris() == ["skill://acme/legs/walk/SKILL.md"]
    assert SkillDirectory(tmp_path, under="acme").uris() == ["skill://acme/walk/SKILL.md"]


def test_a_skill_inside_another_is_one_and_its_files_are_files_of_both(tmp_path: Path) -> None:
    skill(tmp_path)
    skill(tmp_path, "walk/inner/run")
    directory = SkillDirectory(tmp_path)
    inner = "skill://walk/inner/run/SKILL.md"
    assert directory.uris() == ["skill://walk/SKILL.md", inner]
    outer = directory.entry("skill://walk/SKILL.md")
    assert outer is not None and inner in [file["uri"] for file in outer["resources"]]


def test_what_changes_on_disk_is_seen_and_what_breaks_a_rule_then_is_gone(tmp_path: Path) -> None:
    folder = skill(tmp_path)
    directory = SkillDirectory(tmp_path)
    before = directory.entry("skill://walk/SKILL.md")
    (folder / "more.md").write_text("more")
    after = directory.entry("skill://walk/SKILL.md")
    assert before is not None and after is not None
    assert len(after["resources"]) == len(before["resources"]) + 1
    (folder / "SKILL.md").write_text("no front matter")
    assert directory.entry("skill://walk/SKILL.md") is None


def test_a_directory_shows_what_is_directly_in_it(tmp_path: Path) -> None:
    folder = skill(tmp_path)
    (folder / "empty").mkdir()
    (folder / "tool.py").write_text("pass")
    directory = SkillDirectory(tmp_path)
    shown = {child["name"]: child["mimeType"] for child in directory.children("skill://walk") or []}
    assert shown == {"walk": "text/markdown", "empty": "inode/directory", "tool.py": "text/x-python"}
    assert directory.children("skill://walk/empty") == []
    for uri in ("skill://walk/", "skill://walk/tool.py", "skill://walk/none", "skill://", "skill://other"):
        assert directory.children(uri) is None


@pytest.mark.parametrize(
    ("name", "data", "kind", "text"),
    [
        ("a.md", b"\xef\xbb\xbfa\r\n", "text/markdown", "\ufeffa\r\n"),
        ("a.png", b"\x89PNG", "image/png", None),
        ("a.unknown", b"a", "text/plain", "a"),
        ("a.unknown", b"\xff", "application/octet-stream", None),
        ("a.csv.gz", b"\x1f\x8b", "application/octet-stream", None),
    ],
)
def test_a_file_is_text_where_that_gives_the_same_bytes(
    tmp_path: Path, name: str, data: bytes, kind: str, text: str | None
) -> None:
    (skill(tmp_path) / name).write_bytes(data)
    content = SkillDirectory(tmp_path).content(f"skill://walk/{name}")
    assert content is not None and (content.data, content.mime_type, content.text) == (data, kind, text)
    assert text is None or text.encode() == data


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("walk", HEAD.format("run"), "has the name 'run', but its directory is 'walk'"),
        ("Walk", HEAD, "has the name 'Walk'"),
        ("a--b", HEAD, "single hyphens"),
        ("a" * 65, HEAD, "1 to 64"),
        ("walk", "---\nname: walk\n---\n", "needs a description"),
        ("walk", f"---\nname: walk\ndescription: {'x' * 1025}\n---\n", "1 to 1024 characters"),
        ("walk", "---\nname: walk\ndescription: ''\n---\n", "1 to 1024 characters"),
        ("walk", "---\nname: [walk]\ndescription: x\n---\n", r"has the name \['walk'\]"),
        ("walk", "Walk.", "must begin with front matter"),
    ],
)
def test_a_skill_that_breaks_a_rule_cannot_be_added(tmp_path: Path, name: str, text: str, reason: str) -> None:
    skill(tmp_path, name, text)
    with pytest.raises(LocalError, match=reason):
        SkillDirectory(tmp_path)


@pytest.mark.parametrize(("name", "description"), [("walk", "x"), ("a" * 64, "x" * 1024), ("a-1-b", "é" * 1024)])
def test_names_and_descriptions_may_be_as_long_as_the_limit(tmp_path: Path, name: str, description: str) -> None:
    skill(tmp_path, name, f"---\nname: {name}\ndescription: {description}\n---\n")
    entry = SkillDirectory(tmp_path).entry(f"skill://{name}/SKILL.md")
    assert entry is not None and entry["frontmatter"]["description"] == description


def test_a_skill_with_too_many_files_or_bytes_cannot_be_added(tmp_path: Path) -> None:
    large = skill(tmp_path / "large")
    with open(large / "zeros", "wb") as file:
        file.truncate(MAX_BYTES)
    many = skill(tmp_path / "many")
    for number in range(MAX_FILES):
        (many / f"{number}").touch()
    for folder in (large, many):
        with pytest.raises(LocalError, match="more than 512 files or 16777216 bytes"):
            SkillDirectory(folder)
    (many / "0").unlink()
    entry = SkillDirectory(many).entry("skill://walk/SKILL.md")
    assert entry is not None and len(entry["resources"]) == MAX_FILES


def test_a_folder_without_a_skill_and_one_that_is_not_there_cannot_be_added(tmp_path: Path) -> None:
    for folder, reason in ((tmp_path, "there is no SKILL.md"), (tmp_path / "none", "is not a directory")):
        with pytest.raises(LocalError, match=reason):
            SkillDirectory(folder)


def test_links_and_what_is_no_file_cannot_be_added(tmp_path: Path) -> None:
    folder = skill(tmp_path)
    for make, reason in (
        (lambda path: path.symlink_to("/etc/passwd"), "is a link"),
        (lambda path: path.symlink_to(folder), "is a link"),
        (os.mkfifo, "neither a file nor a directory"),
    ):
        entry = folder / "made"
        make(entry)
        with pytest.raises(LocalError, match=reason):
            SkillDirectory(tmp_path)
        entry.unlink()


def test_a_skill_that_is_not_utf_8_cannot_be_added(tmp_path: Path) -> None:
    (skill(tmp_path) / "SKILL.md").write_bytes(HEAD.format("walk").encode() + b"\xff")
    with pytest.raises(LocalError, match="walk/SKILL.md is not UTF-8"):
        SkillDirectory(tmp_path)


def test_what_begins_with_a_dot_is_not_there(tmp_path: Path) -> None:
    folder = skill(tmp_path)
    (folder / ".env").write_text("KEY=1")
    (folder / ".git").symlink_to("/etc")
    directory = SkillDirectory(tmp_path)
    entry = directory.entry("skill://walk/SKILL.md")
    assert entry is not None and len(entry["resources"]) == 1
    assert directory.content("skill://walk/.env") is None and directory.content("skill://walk/%2Eenv") is None


@pytest.mark.parametrize(
    "path",
    [
        "../secret.md",
        "walk/../../secret.md",
        "walk/%2e%2e/%2e%2e/secret.md",
        "walk/..%2f..%2fsecret.md",
        "walk/%252e%252e/secret.md",
        "walk//SKILL.md",
        "walk/./SKILL.md",
        "/walk/SKILL.md",
        "walk/SKILL.md/",
        "walk/SKILL.md%00",
        "walk/SKILL.md?x",
        "walk\\SKILL.md",
        "outside.md",
        "walk",
        "",
    ],
)
def test_a_file_is_found_as_it_is_published_and_in_no_other_way(tmp_path: Path, path: str) -> None:
    inside = tmp_path / "inside"
    skill(inside)
    (tmp_path / "secret.md").write_text("secret")
    (inside / "outside.md").write_text("of no skill")
    directory = SkillDirectory(inside)
    assert directory.content(f"skill://{path}") is None and directory.entry(f"skill://{path}") is None
    assert directory.content("skill://walk/SKILL.md") is not None


@pytest.mark.parametrize("uri", ["skill://walk/SKILL%2Emd", "SKILL://%77alk/SKILL.md", "skill://walk/SKILL.md#part"])
def test_a_file_is_found_in_every_spelling_of_its_uri(tmp_path: Path, uri: str) -> None:
    skill(tmp_path)
    content = SkillDirectory(tmp_path).content(uri)
    assert content is not None and content.text is not None and "For tests." in content.text


def test_what_becomes_a_link_later_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "guide.md").write_text("secret")
    folder = skill(tmp_path / "inside")
    (folder / "docs").mkdir()
    (folder / "docs" / "guide.md").write_text("public")
    directory = SkillDirectory(tmp_path / "inside")
    uri = "skill://walk/docs/guide.md"
    assert getattr(directory.content(uri), "text", "") == "public"
    (folder / "docs").rename(tmp_path / "gone")
    (folder / "docs").symlink_to(outside)
    assert directory.content(uri) is None and directory.children("skill://walk/docs") is None
    assert directory.entry("skill://walk/SKILL.md") is None
    (folder / "docs").unlink()
    (folder / "docs").mkdir()
    (folder / "docs" / "guide.md").symlink_to(outside / "guide.md")
    assert directory.content(uri) is None
