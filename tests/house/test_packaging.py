"""The wheel, the sdist and the editable install hold the same packages and see the same data."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.docs.blocks import blocks_of
from support.installation.distributions import DISTRIBUTIONS, built_distributions, wheel_of
from support.installation.environments import create_environment
from support.project import ROOT

DATA = [path for folder in ("schema", "templates") for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
PACKAGES = {
    "mcp_codegen": "codegen",
    "mcp_runtime": "runtime",
    "mcp_products": "products",
    "mcp_generated": "generated",
}


def project(folder: str) -> dict[str, Any]:
    """The pyproject.toml of a distribution."""
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of each distribution, and the wheel that was built from it."""
    return built_distributions(tmp_path_factory)


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels, unpacked as pip does it."""
    folder = tmp_path_factory.mktemp("site")
    for name in DISTRIBUTIONS:
        with zipfile.ZipFile(wheel_of(built, name)) as archive:
            archive.extractall(folder)
    return folder


def sources() -> set[str]:
    """Every file of the packages, at the place it has in a wheel."""
    paths: set[str] = set()
    for package, folder in PACKAGES.items():
        for path in (ROOT / folder / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                paths.add(str(path.relative_to(ROOT / folder)))
    names = {f"mcp_codegen/names/{version}/modules.toml" for version in ("v1", "v2")}
    return (paths | names | {f"mcp_codegen/{path.relative_to(ROOT)}" for path in DATA}) - set(pages())


def pages() -> Iterator[str]:
    """The pages of products that the base distribution leaves out."""
    for path in project(".")["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]:
        if path.startswith("products/"):
            yield f"{path.removeprefix('products/')}/README.md"


def files_of(path: Path) -> set[str]:
    """The files of a wheel, without its metadata."""
    with zipfile.ZipFile(path) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.mark.long
def test_the_wheels_hold_the_packages_and_their_data_and_nothing_else(built: Path) -> None:
    files = [files_of(wheel_of(built, name)) for name in DISTRIBUTIONS]
    assert set.union(*files) == sources()
    assert sum(map(len, files)) == len(sources())  # No file is in two of them, so that each can be uninstalled.
    base, codegen, extras = files
    assert {"mcp_runtime/command.py", "mcp_runtime/py.typed", "mcp_generated/py.typed"} <= base
    assert {name.partition("/")[0] for name in base} == {"mcp_runtime", "mcp_products", "mcp_generated"}
    assert {
        "mcp_codegen/py.typed",
        "mcp_codegen/templates/client.py.jinja2",
        "mcp_products/tooling/launch.py",
    } <= codegen
    assert {"mcp_products/compat/app.py", "mcp_products/auth/client/provider.py"} <= extras


def products_of(files: set[str]) -> set[str]:
    """The products whose files a wheel has."""
    return {name.split("/")[1] for name in files if name.startswith("mcp_products/")}


def test_each_product_is_in_one_distribution(built: Path) -> None:
    base, codegen, extras = (products_of(files_of(wheel_of(built, name))) for name in DISTRIBUTIONS)
    assert codegen == {"lint", "tooling"}
    words = "auth cards code_mode compat hosting json_rpc legacy_sse metrics openapi relay skills tenants views workers"
    extras -= {"common", "fast", "platforms"}  # One file of each, which only these products use.
    assert extras == set(words.split())
    assert base == {path.parent.name for path in (ROOT / "products/mcp_products").glob("*/py.typed")} - codegen - extras


def test_what_one_distribution_leaves_out_another_has() -> None:
    excluded = project(".")["tool"]["hatch"]["build"]["targets"]["wheel"]["exclude"]
    tables = {
        folder: project(folder)["tool"]["hatch"]["build"]["hooks"]["custom"]["checkout"]
        for folder in ("codegen", "products")
    }
    left = {path for path in excluded if not path.endswith("/README.md")}
    own = {path for path in left if path.startswith("/products/")}  # These stand where the other distribution is built.
    assert {f"..{path}" for path in left - own} == tables["products"].keys()
    included = project("products")["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    assert {path.removeprefix("/products/") for path in own} <= {*included}
    assert all(path.endswith(place.partition("/")[2]) for table in tables.values() for path, place in table.items())
    hooks = [(ROOT / folder / "hatch_build.py").read_bytes() for folder in tables]
    assert hooks[0] == hooks[1]


def test_all_distributions_have_one_version_and_require_it_exactly() -> None:
    projects = [project(folder)["project"] for folder in DISTRIBUTIONS.values()]
    (version,) = {table["version"] for table in projects}
    names = {table["name"] for table in projects}
    for table in projects:
        groups = [table["dependencies"], *table.get("optional-dependencies", {}).values()]
        for text in (item for group in groups for item in group):
            name, _, rest = re.fullmatch(r"([\w-]+)(\[[\w,]+\])?(.*)", text).groups()  # type: ignore[union-attr]
            if name in names - {table["name"]}:
                assert rest == f"=={version}", text


def test_the_extra_dev_has_the_packages_of_all_distributions() -> None:
    base, *others = [project(folder)["project"] for folder in DISTRIBUTIONS.values()]
    extras: dict[str, list[str]] = base["optional-dependencies"]
    listed, waiting = set[str](), [*extras["dev"]]
    while waiting:
        item = waiting.pop()
        listed.add(item)
        if names := re.fullmatch(r"mcp-generated\[([\w,]+)\]", item):
            waiting += [item for name in names[1].split(",") for item in extras[name]]
    # No index has the other distributions before a release, so a checkout has to be installed without them.
    assert not [item for item in listed if item.startswith(tuple(table["name"] for table in others))]
    needed = {item for name in ("app", "auth", "http", "keyring", "otel", "redis", "skills") for item in extras[name]}
    for table in others:
        groups = [table["dependencies"], *table.get("optional-dependencies", {}).values()]
        needed |= {item for group in groups for item in group}
    assert {item for item in needed if not item.startswith("mcp-generated")} <= listed


def test_the_sdists_hold_what_it_takes_to_build_and_test(built: Path) -> None:
    names: dict[str, set[str]] = {}
    for distribution in DISTRIBUTIONS:
        with tarfile.open(next(built.glob(f"{distribution}-*.tar.gz"))) as sdist:
            names[distribution] = {name.partition("/")[2] for name in sdist.getnames()}
        assert {"pyproject.toml", "README.md", "LICENSE"} <= names[distribution]
    assert {"tests/conftest.py", "examples/echo/server.py", "docs/fidelity.md"} <= names["mcp_generated"]
    assert {str(path.relative_to(ROOT)) for path in DATA} <= names["mcp_generated"]


@pytest.mark.long
def test_an_installed_wheel_generates_what_the_checkout_does(installed: Path, tmp_path: Path) -> None:
    # Only the unpacked wheel is on the path: the editable install in site-packages comes after it.
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-m", "mcp_codegen", "--revision", "2025-06-18"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    written = tmp_path / "mcp_bindings" / "v2025_06_18"
    committed = ROOT / "generated" / "mcp_generated" / "v2025_06_18"
    assert {path.name: path.read_bytes() for path in written.glob("*.py")} == {
        path.name: path.read_bytes() for path in committed.glob("*.py")
    }
    for arguments in (
        ["--revision", "2025-06-18", "--standalone", "--output", "own"],
        ["explore", "--output", "mcp.html"],
    ):
        done = [sys.executable, "-m", "mcp_codegen", *arguments]
        subprocess.run(done, cwd=tmp_path, env=environment, check=True, capture_output=True)
    own = {str(path.relative_to(tmp_path / "own")) for path in (tmp_path / "own").rglob("*.py")}
    ours = (("runtime", ROOT / "runtime" / "mcp_runtime"), ("products", ROOT / "products" / "mcp_products"))
    copied = {f"{name}/{path.relative_to(folder)}" for name, folder in ours for path in folder.rglob("*.py")}
    # What commands start belongs to a distribution that is not installed with bindings.
    copied = {name for name in copied if not name.startswith(("products/lint/", "products/tooling/"))}
    assert copied | {"v2025_06_18/client.py"} <= own
    assert (tmp_path / "mcp.html").stat().st_size > 100_000
    where = [
        sys.executable,
        "-c",
        "import mcp_codegen, mcp_generated.v2025_06_18 as v; print(mcp_codegen.__file__, v.__file__)",
    ]
    shown = subprocess.run(where, cwd="/", env=environment, check=True, capture_output=True, text=True).stdout
    assert shown.split() == [
        f"{installed}/mcp_codegen/__init__.py",
        f"{installed}/mcp_generated/v2025_06_18/__init__.py",
    ]


FIRST_PROGRAM = next(
    block.source for block in blocks_of(ROOT / "README.md") if block.options.get("file") == "server.py"
)


def test_each_hint_names_an_extra_that_there_is() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    hints: dict[str, set[str]] = {}
    for folder in ("runtime", "products", "codegen", "templates", "docs", "README.md"):
        paths = [ROOT / folder] if (ROOT / folder).is_file() else sorted((ROOT / folder).rglob("*"))
        for path in paths:
            if path.suffix in (".py", ".jinja2", ".md"):
                for name, named in re.findall(r"(mcp[-_](?:codegen|generated))\[([\w,]+)\]", path.read_text()):
                    hints.setdefault(name, set()).update(named.split(","))
    assert hints.keys() == {"mcp-generated"}
    assert {"app", "auth", "codegen", "http", "skills"} <= hints["mcp-generated"] <= extras.keys()


class Environment:
    """An empty virtual environment."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        create_environment(folder / "env")
        self.folder = folder
        self._first = set(self._files())  # Those of pip.
        self.programs = folder / "env" / "bin"
        self._variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self._variables["PIP_FIND_LINKS"] = str(wheels)

    def run(
        self, program: str, *arguments: str | Path, code: int = 0, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self.programs / program, *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self._variables,
            **options,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def packages(self) -> set[str]:
        listed = json.loads(self.run("pip", "list", "--format", "json").stdout)
        return {package["name"] for package in listed} - {"pip", "setuptools"}

    def size(self) -> int:
        """The bytes of all packages but those that come with the environment."""
        return sum(path.stat().st_size for path in self._files() if path not in self._first)

    def _files(self) -> list[Path]:
        site = next((self.folder / "env" / "lib").glob("python*/site-packages"))
        return [path for path in site.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


@pytest.mark.long
def test_an_empty_environment_needs_little_and_serves(built: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path, built)
    environment.run("pip", "install", "-q", "--no-compile", wheel_of(built))
    packages = environment.packages()
    assert "mcp-generated" in packages and len(packages) <= 6, packages
    assert environment.size() < 10 * 2**20, environment.size()  # 7.3 MiB of these are pydantic and what it requires.
    for line, extra in (
        ("from mcp_generated.auth import OAuthClientProvider", "http,auth"),
        ("from mcp_generated.auth import AuthorizationServer", "http,auth"),
        ("from mcp_generated.auth import ResourceServer", "http,auth"),
        ("from mcp_generated.auth import JWTVerifier", "http,auth"),
        ("from mcp_generated.auth import DPoPVerifier", "http,auth"),
        ("from mcp_generated.auth import DiscoveryMethod", "http,auth"),
        ("from mcp_generated.code_mode import CodeMode", "code"),
        ("from mcp_generated.http import ServerCard", "http"),
        ("from mcp_generated.extensions.server_card import types", "http"),
        ("from mcp_generated import App; App('shop', version='1').asgi(card=True)", "http"),
        ("from mcp_generated.compat import FastMCP", "compat"),
        ("import mcp_generated.compat.types", "compat"),
        ("from mcp_generated import App; App('shop').asgi(legacy_sse=True)", "http"),
        ("from mcp_generated import RouteMap", "openapi"),
        ("from mcp_generated import App; App.from_openapi({})", "openapi"),
        ("from mcp_generated import App; App.proxy('server.py')", "proxy"),
        ("from mcp_generated import Gateway", "cli"),
        ("from mcp_generated import App; App('shop').skills('skills')", "skills"),
        ("import mcp_generated.skills", "skills"),
        ("import mcp_generated.tenants", "http"),
        ("from mcp_generated.extensions.skills import Client", "skills"),
        ("from mcp_generated.extensions.apps import App", "views"),
        ("from mcp_generated import App; App('shop').tool(name='a', view='<p>')(lambda: None)", "views"),
    ):
        refused = environment.run("python", "-c", line, code=1).stderr
        assert f" needs mcp-generated-extras: pip install 'mcp-generated[{extra}]'\n" in refused, refused
    (tmp_path / "server.py").write_text(FIRST_PROGRAM)
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}},
    ]
    served = environment.run("python", "server.py", input="".join(json.dumps(message) + "\n" for message in messages))
    assert json.loads(served.stdout.splitlines()[-1])["result"]["structuredContent"] == {"result": 3}


@pytest.mark.exhaustive
def test_the_command_says_what_to_install(built: Path, tmp_path: Path) -> None:
    environment, base = Environment(tmp_path, built), wheel_of(built)
    (tmp_path / "server.py").write_text(FIRST_PROGRAM)
    environment.run("pip", "install", "-q", "--no-compile", base)
    for words, extra in (
        (("--revision", "2025-03-26"), "codegen"),
        ((), "codegen"),
        (("run", "server.py"), "cli"),
        (("bridge", "https://example.com/mcp"), "cli"),
    ):
        refused = environment.run("mcp-codegen", *words, code=2)
        needed = f"needs mcp-generated-codegen: pip install 'mcp-generated[{extra}]'\n"
        assert refused.stderr == f"error: mcp-codegen {needed}"
    assert environment.run("mcp-generated", "run", "server.py", code=2).stderr == f"error: mcp-generated {needed}"

    before = environment.packages()
    environment.run("pip", "install", "-q", "--no-compile", f"{base}[cli]")
    of_click_and_rich = {"click", "rich", "markdown-it-py", "mdurl", "Pygments"}
    ours = {"mcp-generated-codegen", "mcp-generated-extras"}
    assert {name.lower() for name in environment.packages() - before - ours} <= {
        name.lower() for name in of_click_and_rich
    }
    assert "3" in environment.run("mcp-generated", "call", "server.py", "add", "a=1", "b=2").stdout
    assert "3" in environment.run("mcp-codegen", "call", "server.py", "add", "a=1", "b=2").stdout
    environment.run("mcp-generated", "create", "shop")
    assert (
        "everything passes"
        in environment.run(
            "mcp-codegen", "bridge", "--report", "--", environment.programs / "python", "server.py"
        ).stdout
    )
    refused = environment.run("mcp-codegen", "--revision", "2025-03-26", code=2)
    assert refused.stderr.endswith("pip install 'mcp-generated[codegen]'\n")

    environment.run("pip", "install", "-q", "--no-compile", f"{base}[codegen,compat]")
    environment.run("mcp-codegen", "--revision", "2025-03-26")
    assert (tmp_path / "mcp_bindings" / "v2025_03_26" / "client.py").is_file()
    environment.run("python", "-c", "from mcp_generated.compat import FastMCP")

    environment.run("pip", "uninstall", "-q", "-y", "mcp-generated-codegen", "mcp-generated-extras")
    environment.run("mcp-codegen", "run", "server.py", code=2)
    site = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
    left = [name for name in ("mcp_codegen", "mcp_products/tooling", "mcp_products/compat") if (site / name).exists()]
    assert left == []
    environment.run("pip", "check")
