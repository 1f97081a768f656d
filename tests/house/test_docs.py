"""The documentation: its code runs, imports are public names, links lead somewhere, and terms are the field's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module, util
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from support.docs.blocks import PAGES, ROOT, Block, blocks_of, chains, run_chain
from website.reference import AREAS

EXAMPLES: Final = sorted((ROOT / "examples").rglob("*.py"))
PROSE: Final = [*PAGES, *sorted((ROOT / "examples").rglob("README.md")), ROOT / "benchmarks" / "README.md"]
VERSION: Final = re.compile(r"mcp_generated\.v\d{4}_\d\d_\d\d")
OF_A_VERSION: Final = {"Client", "SyncClient", "Server", "Context", "types", "methods"}
OF_AN_EXTENSION: Final = {*OF_A_VERSION, "ClientMixin", "ServerMixin", "App", "SyncApp", "Host"}

# Private words of the past, and words that hide the subject of a sentence. `docs/glossary.md` has the terms to use.


def cases() -> Iterator[Any]:
    """Yield the chains of blocks, a process each. Those of README run by default, and all with `nox -s docs`."""
    for chain in chains():
        is_further = chain[0].page.name != "README.md"
        yield pytest.param(chain, id=str(chain[0]), marks=pytest.mark.long if is_further else ())


@pytest.mark.parametrize("chain", cases())
def test_the_code_of_the_documentation_runs(chain: list[Block], tmp_path: Path) -> None:
    run_chain(chain, tmp_path)


def test_every_page_with_a_python_block_is_run() -> None:
    written = sum(len(re.findall(r"^```python$", page.read_text(), re.M)) for page in PAGES)
    assert written == sum(map(len, chains())) and written > 30


# ---- imports --------------------------------------------------------------------------------------------------------


def imports(source: str, path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield the module and the name of each import of our packages; the name is None for `import module`."""
    tree = compile(source, str(path), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mcp_"):
            for alias in node.names:
                yield node.module or "", alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("mcp_"):
                    yield alias.name, None


def is_public(module: str, name: str | None) -> bool:
    """Return True if README, docs and examples may import this."""
    if module == "mcp_generated":
        return name is None or name in public(module) or VERSION.fullmatch(f"{module}.{name}") is not None
    if VERSION.fullmatch(module):
        return name in OF_A_VERSION
    if module == "mcp_generated.compat.types":
        return name is not None and hasattr(import_module(module), name)
    if module.removeprefix("mcp_generated.") in AREAS or module == "mcp_generated.extensions":
        return name is not None and name in public(module)
    if module.startswith("mcp_generated.extensions."):
        return module.count(".") == 2 and name in OF_AN_EXTENSION
    return False


def public(name: str) -> set[str]:
    """Return the public names of a module: its `__all__`, or for a package its modules."""
    module: ModuleType = import_module(name)
    names = set(getattr(module, "__all__", ()))
    if name == "mcp_generated.extensions":
        folder = Path(module.__path__[0])
        names |= {path.parent.name for path in folder.glob("*/__init__.py")}
    assert names, f"{name} has no __all__"
    return names


def test_documentation_and_examples_import_public_names_only() -> None:
    sources = [(block.source, block.page) for page in PAGES for block in blocks_of(page)]
    sources += [(path.read_text(encoding="utf-8"), path) for path in EXAMPLES]
    private = [
        f"{path.relative_to(ROOT)}: {module}.{name}"
        for source, path in sources
        for module, name in imports(source, path)
        if not is_public(module, name)
    ]
    assert private == []


@pytest.mark.parametrize("module", ["mcp_generated", *(f"mcp_generated.{area}" for area in AREAS)])
def test_every_public_name_is_there(module: str) -> None:
    imported = import_module(module)
    assert [name for name in public(module) if not hasattr(imported, name)] == []
    assert public(module) <= set(dir(imported))


# ---- links -----------------------------------------------------------------------------------------------------------


def test_links_lead_to_files() -> None:
    links: dict[str, list[str]] = {}
    for page in PROSE:
        text = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))
        targets = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", text)
        links[str(page.relative_to(ROOT))] = [target for target in targets if not (page.parent / target).exists()]
    assert len(links) > 80 and {page: broken for page, broken in links.items() if broken} == {}


def test_the_glossary_names_modules_that_exist() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    head, generator = text.split("\n## Generator\n")
    missing: list[str] = []
    for packages, part in ((("mcp_runtime", "mcp_products"), head), (("mcp_codegen",), generator)):
        for row in part.splitlines():
            cells = row.split(" | ")
            if not row.startswith("| ") or len(cells) < 2:
                continue
            for name in re.findall(r"`([a-z_]+(?:\.[a-zA-Z_]+)+)`", cells[1]):
                missing += [name] * (not any(_resolves(name, package) for package in packages))
    assert missing == []


def _resolves(name: str, package: str) -> bool:
    """Return True if a dotted name is a module, or an attribute of one."""
    if name.startswith("mcp_generated.v"):
        return True
    path = name if name.startswith("mcp_") else f"{package}.{name}"
    module, _, attribute = path.rpartition(".")
    try:
        if util.find_spec(path) is not None:
            return True
    except ModuleNotFoundError:
        pass
    try:
        return hasattr(import_module(module), attribute)
    except ModuleNotFoundError:
        return False


def test_the_index_of_decisions_has_every_record_with_its_status() -> None:
    folder = ROOT / "docs" / "adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    records = sorted(folder.glob("0*.md"))
    assert records
    for record in records:
        text = record.read_text(encoding="utf-8")
        number, title = re.match(r"# (\d{4})\. (.+)\n", text).groups()  # type: ignore[union-attr]
        status = re.search(r"\n## Status\n\n(\w+)", text)[1]  # type: ignore[index]
        assert record.name.startswith(number)
        assert re.findall(r"^## (.+)$", text, re.M) == ["Status", "Context", "Decision", "Consequences"]
        assert f"| [{number}]({record.name}) | {title} | {status.lower()} |" in index


def test_every_number_of_a_decision_has_a_record_or_is_explained() -> None:
    folder = ROOT / "docs" / "adr"
    numbers = [int(record.name[:4]) for record in folder.glob("0*.md")]
    explained = (folder / "README.md").read_text(encoding="utf-8").split("## Numbers without a record")[1]
    (listed,) = re.findall(r"never been records ([\d, and]+)\.", explained.replace("\n", " "))
    missing = set(range(1, max(numbers))) - set(numbers)
    assert [int(number) for number in re.findall(r"\d{4}", listed)] == sorted(missing)
