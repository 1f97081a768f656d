"""ARCHITECTURE.md and its neighbours name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.source_tree import ROOT

TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PAGES = (
    *("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "RELEASING.md"),
    *("VERSIONING.md", "DEPENDENCY_POLICY.md", "ROADMAP.md"),
)


def test_every_place_of_an_everyday_change_exists() -> None:
    rows = re.findall(r"^\| (.+) \| `(.+)` \|$", TEXT.partition("## Where do I find")[2], re.MULTILINE)
    assert len(rows) >= 20
    assert [path for _, path in rows if not (ROOT / path).is_file()] == []
    assert len({path for _, path in rows}) == len(rows)


def test_the_layers_drawn_are_those_of_the_runtime() -> None:
    drawing = TEXT.partition("## The runtime")[2].partition("```")[2].partition("```")[0]
    runtime = ROOT / "runtime" / "mcp_runtime"
    names = {path.stem for path in runtime.iterdir() if path.stem not in ("__init__", "__pycache__", "py")}
    assert {name for name in names if not re.search(rf"(?<!\w){name}(/|\s)", drawing)} == set()


PRODUCTS = sorted(path.parent for path in (ROOT / "products" / "mcp_products").glob("*/py.typed"))


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name)
def test_a_product_has_a_page_that_begins_with_its_idea_and_names_files_that_exist(product: Path) -> None:
    text = (product / "README.md").read_text(encoding="utf-8")
    head, idea = text.split("\n\n")[:2]
    assert head == f"# {product.name}" and idea.endswith(".") and "\n" not in idea
    files = re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", text)
    assert files and [name for name in files if not (product / name).exists() and not _in_core(name)] == []
    assert f"(products/mcp_products/{product.name}/README.md)" in TEXT


def _in_core(name: str) -> bool:
    return (ROOT / "runtime" / name).exists()


def test_loggers_of_products_are_below_that_of_the_runtime() -> None:
    """Programs set the level of `mcp_runtime` for all of them."""
    paths = [path for product in PRODUCTS for path in product.rglob("*.py")]
    calls = {path.name: re.findall(r"getLogger\((.*?)\)", path.read_text(encoding="utf-8")) for path in paths}
    names = [(file, name) for file, found in calls.items() for name in found]
    assert len(names) > 20
    assert [(file, name) for file, name in names if name == "__name__" or name.startswith('"mcp_products')] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text(encoding="utf-8"))
    local = [link for link in links if not link.startswith("http")]
    assert [link for link in local if not (ROOT / link).exists()] == []
