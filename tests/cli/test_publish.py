"""`mcp-generated publish`: server.json from a project and its server, and what the registry refuses of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mcp_codegen.cli.apps import publish as command
from mcp_codegen.cli.authors import authors
from mcp_codegen.servers.registry import SCHEMA, Project, document_of, drift_of, merged, problems_of, project_problems

NAME = "io.github.somebody/shop"
SERVER = """
import os
from mcp_generated import App

app = App("shop", version="1.2.0", title="The shop")
KEY = os.environ["SHOP_API_KEY"]
REGION = os.getenv("SHOP_REGION", "eu")

@app.tool()
def region() -> str:
    \"\"\"Return the region of the shop.\"\"\"
    return REGION
"""
PROJECT = """[project]
name = "shop"
version = "1.2.0"
description = "What the shop sells."
readme = "README.md"
dependencies = ["mcp-generated"]

[project.urls]
Source = "https://github.com/somebody/shop"
Homepage = "https://shop.example"

[project.scripts]
shop = "shop.server:main"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    for place, text in (("shop/server.py", SERVER), ("pyproject.toml", PROJECT), ("README.md", "# Shop\n")):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(text)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The running server answers at once; the long test starts one."""
    info = {"serverInfo": {"name": "shop", "version": "1.2.0", "title": "The shop"}}

    def answer(*_: object) -> object:
        return {"server": info}

    monkeypatch.setattr(command, "probe_json", answer)


def publish(*words: str) -> Result:
    return CliRunner().invoke(authors, ["publish", "shop/server.py", *words])


def stored(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "server.json").read_text())
    return document


@pytest.mark.long
def test_server_json_has_what_the_project_and_the_running_server_say(folder: Path) -> None:
    written = publish("--write", "--remote", "https://shop.example/mcp", "--env", "SHOP_API_KEY=secret")
    assert written.exit_code == 0, written.output
    assert stored(folder) == {
        "$schema": SCHEMA,
        "name": NAME,  # From the repository.
        "title": "The shop",  # From the running server.
        "description": "What the shop sells.",
        "version": "1.2.0",
        "repository": {"url": "https://github.com/somebody/shop", "source": "github"},
        "websiteUrl": "https://shop.example",
        "packages": [
            {
                "registryType": "pypi",
                "identifier": "shop",
                "version": "1.2.0",
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "environmentVariables": [
                    {
                        "name": "SHOP_API_KEY",
                        "description": "The variable SHOP_API_KEY.",
                        "isRequired": True,
                        "isSecret": True,
                    },
                    {
                        "name": "SHOP_REGION",
                        "description": "The variable SHOP_REGION.",
                        "isRequired": False,
                        "default": "eu",
                    },
                ],
            }
        ],
        "remotes": [{"type": "streamable-http", "url": "https://shop.example/mcp"}],
    }
    assert "secret" not in (folder / "server.json").read_text()
    assert (folder / "README.md").read_text() == f"# Shop\n\n<!-- mcp-name: {NAME} -->\n"
    checked = publish("--check", "--env", "SHOP_API_KEY=secret")
    assert (checked.exit_code, checked.output) == (
        0,
        f"server.json: {NAME} 1.2.0 agrees with the project and the running server\n",
    )


def test_without_an_option_it_is_printed_and_nothing_is_written(folder: Path, answered: None) -> None:
    result = publish()
    assert json.loads(result.output)["name"] == NAME
    assert not (folder / "server.json").exists()
    assert (folder / "README.md").read_text() == "# Shop\n"


@pytest.mark.skipif(os.name == "nt", reason="links of POSIX systems")
@pytest.mark.parametrize("name", ["server.json", "README.md"])
def test_a_link_in_the_place_of_a_file_is_refused_and_nothing_is_written(
    name: str, folder: Path, answered: None
) -> None:
    hook, before = folder / "hook", {"server.json": "{}\n", "README.md": "# Shop\n"}
    hook.write_text(before[name])
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(hook)
    refused = publish("--write")
    assert refused.exit_code == 2 and "is a link to" in refused.output, refused.output
    assert hook.read_text() == before[name]
    assert not (folder / "server.json").is_file() or name == "server.json"
    (folder / name).unlink()
    hook.rename(folder / name)
    written = publish("--write")
    assert written.exit_code == 0, written.output
    assert {file.name for file in folder.iterdir()} == {"server.json", "README.md", "pyproject.toml", "shop"}


def test_drift_is_reported_with_what_to_do_and_write_ends_it(folder: Path, answered: None) -> None:
    publish("--write")
    document = stored(folder)
    document["packages"][0]["environmentVariables"][0]["description"] = "Your key, from the settings of the shop."
    document["_meta"] = {"io.modelcontextprotocol.registry/publisher-provided": {"tool": "by hand"}}
    (folder / "server.json").write_text(json.dumps(document))
    project = (folder / "pyproject.toml").read_text().replace("1.2.0", "1.3.0").replace("sells", "buys")
    (folder / "pyproject.toml").write_text(project)
    (folder / "shop/more.py").write_text("import os\nos.environ['SHOP_NEW']\n")
    result = publish("--check")
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        'server.json: description is "What the shop sells.", and the project says "What the shop buys."; publish '
        "--write sets it",
        'server.json: version is "1.2.0", and the project says "1.3.0"; publish --write sets it',
        "server.json: the package shop (pypi) has the version '1.2.0', and the project's is '1.3.0'; publish --write "
        "sets it",
        "server.json: the package shop (pypi) does not declare SHOP_NEW, which the source reads; publish --write adds "
        "it",
        "server.json: the running server says version '1.2.0', and pyproject.toml '1.3.0'; make them one",
    ]
    publish("--write")
    new = stored(folder)
    assert (new["version"], new["packages"][0]["version"]) == ("1.3.0", "1.3.0")
    assert new["_meta"] == document["_meta"]  # What the author has added stays.
    assert new["packages"][0]["environmentVariables"][0] == document["packages"][0]["environmentVariables"][0]
    assert [row["name"] for row in new["packages"][0]["environmentVariables"]][-1] == "SHOP_NEW"


@pytest.mark.parametrize(
    ("change", "words", "message"),
    [
        ({}, ("--check", "--write"), "--check and --write exclude each other; pass one of them"),
        ({}, ("--check",), "there is no server.json beside pyproject.toml; publish --write makes it"),
        ({"pyproject.toml": ""}, (), "has no [project] with a name; the registry names the package"),
        ({"README.md": None}, (), "does not exist, and pyproject.toml names it as readme; write it"),
        ({"server.json": "[]"}, (), "must be a JSON object; move it away, and publish --write makes it anew"),
        (
            {"pyproject.toml": PROJECT.replace("github.com/somebody", "example.com/somebody")},
            (),
            "nothing says the name in the registry; pass --name io.github.USER/SERVER, or one of your domain such as "
            "com.example/SERVER",
        ),
    ],
)
def test_what_cannot_be_done_is_one_line(
    folder: Path, answered: None, change: Mapping[str, str | None], words: tuple[str, ...], message: str
) -> None:
    for place, text in change.items():
        (folder / place).unlink() if text is None else (folder / place).write_text(text)
    result = publish(*words)
    assert result.exit_code == 2
    assert result.output.startswith("error: ") and result.output.endswith(f"{message}\n")


def test_a_description_that_the_registry_refuses_is_not_written(folder: Path, answered: None) -> None:
    (folder / "pyproject.toml").write_text(PROJECT.replace("What the shop sells.", "x" * 158))
    result = publish("--write")
    assert (result.exit_code, result.output) == (
        1,
        "server.json: description has 158 characters, and the registry takes 1 to 100; shorten it by 58\n",
    )
    assert not (folder / "server.json").exists()


def test_a_description_of_server_json_stays_where_the_projects_is_too_long() -> None:
    made = {**document_of(PROJECT_OF, NAME), "description": "x" * 158}
    assert merged({**GOOD, "description": "Short."}, made)["description"] == "Short."


# Each row changes a document without a problem, and says what is reported.
PROJECT_OF = Project(
    {"name": "shop", "version": "1.0.0", "description": "A shop.", "scripts": {"shop": "shop:main"}},
    {"version": "1.0.0"},
    f"mcp-name: {NAME}",
    {"SHOP_KEY": None},
)
GOOD = document_of(PROJECT_OF, NAME, ("https://shop.example/mcp",))


def changed(place: str, value: object) -> dict[str, Any]:
    document: Any = json.loads(json.dumps(GOOD))
    *parents, last = (int(part) if part.isdigit() else part for part in place.split("."))
    target = document
    for part in parents:
        target = target[part]
    target[last] = value
    return dict(document)


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        ("name", "shop", "name 'shop': is NAMESPACE/SERVER with one slash"),
        ("name", "a/b/c", "name 'a/b/c': is NAMESPACE/SERVER with one slash"),
        ("description", "", "description has 0 characters, and the registry takes 1 to 100; say what"),
        ("description", "x" * 101, "shorten it by 1"),
        ("title", "x" * 102, "title has 102 characters"),
        ("$schema", SCHEMA.replace("2025-12-11", "2025-10-17"), "$schema is"),
        ("version", "^1.2", "version is '^1.2', and the registry takes one exact version"),
        ("packages.0.version", "latest", "packages.0.version is 'latest'"),
        ("packages.0.registryType", "conda", "packages.0.registryType is 'conda'; there are npm, pypi"),
        ("packages.0.registryType", "mcpb", "packages.0.fileSha256: a bundle needs its SHA-256"),
        ("packages.0.transport", {"type": "http"}, "packages.0.transport.type is 'http'"),
        ("packages.0.command", "uvx", "packages.0.command: no key of server.json; its keys are registryType"),
        ("tools", [], "tools: no key of server.json"),
        ("repository", {"url": "https://x.example"}, "repository.source is missing"),
        ("remotes.0.url", "http://127.0.0.1:8000/mcp", "remotes.0.url 'http://127.0.0.1:8000/mcp': others cannot"),
        ("_meta", {"mine": 1}, "_meta.mine: the registry keeps io.modelcontextprotocol.registry/publisher-provided"),
    ],
)
def test_what_the_registry_refuses_is_reported(place: str, value: object, problem: str) -> None:
    assert list(problems_of(GOOD)) == []
    assert [line for line in problems_of(changed(place, value)) if problem in line] != []


@pytest.mark.parametrize(
    ("project", "problem"),
    [
        ({"readme": None}, f"pyproject.toml names no readme, so the release has no line mcp-name: {NAME}"),
        ({"readme": "mcp-name: io.github.somebody/shop-2"}, f"the README has no line mcp-name: {NAME}"),
        ({"server": {"version": "4.2.3"}}, "the running server says version '4.2.3', and pyproject.toml '1.0.0'"),
        ({"variables": {}}, "SHOP_KEY: declared, and the source does not read it"),
        (
            {"table": {"name": "shop", "version": "1.0.0", "scripts": {"serve": "shop:main"}}},
            "[project.scripts] has serve, and a host starts uvx shop",
        ),
    ],
)
def test_what_stands_in_the_way_of_a_release_is_reported(project: dict[str, Any], problem: str) -> None:
    assert list(project_problems(PROJECT_OF, GOOD)) == []
    fields = {name: project.get(name, getattr(PROJECT_OF, name)) for name in PROJECT_OF.__slots__}
    assert [line for line in project_problems(Project(**fields), GOOD) if problem in line] != []


def test_nothing_has_drifted_from_what_was_just_made() -> None:
    assert list(drift_of(GOOD, merged(GOOD, document_of(PROJECT_OF, NAME)))) == []


NPM = {
    "name": "@somebody/shop",
    "version": "1.2.0",
    "description": "What the shop sells.",
    "mcpName": NAME,
    "bin": "dist/index.js",
    "repository": {"type": "git", "url": "git+https://github.com/somebody/shop.git"},
}
OF_NPM = {
    "registryType": "npm",
    "identifier": "@somebody/shop",
    "version": "1.2.0",
    "runtimeHint": "npx",
    "transport": {"type": "stdio"},
}


def test_package_json_beside_pyproject_makes_a_second_package(folder: Path, answered: None) -> None:
    (folder / "package.json").write_text(json.dumps(NPM))
    assert publish("--write").exit_code == 0
    packages = stored(folder)["packages"]
    assert [package["registryType"] for package in packages] == ["pypi", "npm"]
    variables = packages[0]["environmentVariables"]
    assert packages[1] == {**OF_NPM, "environmentVariables": variables}
    assert publish("--check").exit_code == 0


def test_package_json_alone_is_enough(folder: Path, answered: None) -> None:
    (folder / "pyproject.toml").unlink()
    (folder / "package.json").write_text(json.dumps(NPM))
    assert publish("--write").exit_code == 0
    document = stored(folder)
    assert (document["name"], document["description"]) == (NAME, NPM["description"])
    assert [package["registryType"] for package in document["packages"]] == ["npm"]
    assert document["repository"] == {"url": "https://github.com/somebody/shop", "source": "github"}


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("version", "1.1.0", "package.json says version '1.1.0', and the project '1.2.0'; make them one"),
        ("mcpName", None, f'package.json has no "mcpName": "{NAME}", by which the registry knows who owns the name'),
        ("bin", None, "package.json has no bin, and a host starts npx @somebody/shop"),
    ],
)
def test_what_stands_in_the_way_of_a_release_on_npm_is_reported(
    folder: Path, answered: None, key: str, value: str | None, problem: str
) -> None:
    (folder / "package.json").write_text(json.dumps({**NPM, key: value}))
    result = publish("--write")
    assert problem in result.stderr
