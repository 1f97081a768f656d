"""The pages of the site: all of docs/ is in the navigation, links lead to sections, and pictures are drawn."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest
from support.docs.blocks import PAGES
from support.project import ROOT
from website import charts, differences, llms, markdown, navigation, pictures, reference, source

from mcp_generated import REVISIONS

PATHS = navigation.pages()


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as GitHub and the site make them."""
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    headings = re.findall(r"^#{1,4} (.+)$", plain, re.M)
    slugs = [re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings]
    return {*slugs, *(f"{slug}-{number}" for slug in slugs for number in range(1, slugs.count(slug)))}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The text of each page of the site, by its path."""
    return source.page_texts()


def test_every_page_of_docs_stands_in_the_navigation_once() -> None:
    files = [page.file for section in navigation.sections() for page in section.pages if page.file is not None]
    assert len(files) == len(set(files)) > 40
    written = {path for path in PAGES if path.is_relative_to(ROOT / "docs")} - {ROOT / "docs" / "adr" / "TEMPLATE.md"}
    assert written <= set(PATHS)
    assert [path for path in PATHS if not path.is_file()] == []


def test_no_two_files_become_one_page() -> None:
    assert len(set(PATHS.values())) == len(PATHS)


def test_the_sections_are_those_that_a_reader_looks_for() -> None:
    titles = [section.title for section in navigation.sections()]
    assert titles[0] == "Start"
    expected = """Servers, Clients, HTTP, Authorization, Protocol versions, Extensions, Deployment, Generator, Security,
        Performance, Troubleshooting, Migration, API reference, Glossary, Cookbook"""
    assert {title.strip() for title in expected.split(",")} <= set(titles)


def test_links_lead_to_sections_that_are_there() -> None:
    broken: list[str] = []
    for file in sorted(PATHS):
        for target in markdown.links(file.read_text(encoding="utf-8")):
            name, _, anchor = target.partition("#")
            other = (file.parent / name).resolve() if name else file
            if anchor and other.suffix == ".md" and anchor not in anchors_of(other):
                broken.append(f"{file.relative_to(ROOT)}: {target}")
    assert broken == []


@cache
def anchors_of(file: Path) -> frozenset[str]:
    """Return the anchors of a page of the repository."""
    return frozenset(anchors(file.read_text(encoding="utf-8")))


def test_links_become_those_of_the_site() -> None:
    file = ROOT / "docs" / "adr" / "README.md"
    text = "[a](../app.md#tools) [b](0001-session-owns-its-tasks.md) [c](../../CHANGELOG.md) [d](https://example.com/x)"
    shown = markdown.site_page(text, file, PATHS)
    assert shown == (
        "[a](../app.md#tools) [b](0001-session-owns-its-tasks.md) [c](../changelog.md) [d](https://example.com/x)"
    )


def test_a_comment_ends_where_it_ends() -> None:
    file = ROOT / "docs" / "app.md"
    figures = "<!-- figure: cuts -->234<!-- end --> cuts,\nin all <!-- figure: all -->300<!-- end -->.\n"
    text = f"{figures}\n## Next\n\n<!-- end -->\nText.\n"
    shown = "234 cuts,\nin all 300.\n\n## Next\n\nText.\n"
    assert markdown.site_page(text, file, PATHS) == shown == llms.plain(text)


def test_links_of_results_become_those_of_the_site() -> None:
    shown = charts.page()
    assert "[the page](reliability.md)" in shown and "](../" not in shown


def test_a_link_to_a_file_that_is_no_page_becomes_its_path() -> None:
    file = ROOT / "docs" / "app.md"
    assert markdown.site_page("[pyproject.toml](../pyproject.toml)", file, PATHS) == "`pyproject.toml`"
    assert markdown.site_page("[the tests](../tests)", file, PATHS) == "the tests (`tests`)"


def test_code_and_comments_of_tests_are_no_links() -> None:
    file = ROOT / "docs" / "app.md"
    text = '<!-- test: file=a.py -->\n```python\nx = "[a](b.md)"\n```\n'
    assert markdown.site_page(text, file, PATHS) == '```python\nx = "[a](b.md)"\n```\n'


# ---- pictures -------------------------------------------------------------------------------------------------------


def test_a_picture_has_its_title_and_no_text_becomes_markup() -> None:
    image = pictures.figure("sequence", 'A <b> & "c"\nX, Y\nX -> Y: <script>alert(1)</script>\nnote Y: a < b\n')
    assert "<script" not in image and "<b>" not in image
    assert 'aria-label="A &lt;b&gt; &amp; &quot;c&quot;"' in image
    assert image.count("<svg") == 1


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("sequence", "Title\nA, B\nA to B", "neither a message nor a note: 'A to B'"),
        ("sequence", "Title\nA, B\nA -> C: x", "'C' is not one of A, B"),
        ("layers", "Title", "has a title and no lines"),
    ],
)
def test_a_line_that_cannot_be_drawn_is_an_error(kind: str, text: str, message: str) -> None:
    with pytest.raises(pictures.PictureError, match=re.escape(message)):
        pictures.figure(kind, text)


@pytest.mark.long
def test_every_kind_of_picture_is_used_and_drawn(texts: dict[str, str]) -> None:
    blocks = [block for text in texts.values() for block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)]
    drawn = [kind for kind, text in blocks if kind in pictures.KINDS and pictures.figure(kind, text).count("<rect") > 1]
    assert set(drawn) == set(pictures.KINDS)


# ---- charts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chart", charts.CHARTS, ids=lambda chart: chart.title.partition(":")[0])
def test_a_chart_has_a_bar_for_each_value_and_the_versions(chart: charts.Chart) -> None:
    image = charts.figure(chart)
    assert image.count('class="bar ours"') == len(chart.rows)
    assert image.count('class="bar ') == len(chart.rows) * len(chart.columns)
    assert re.search(r"Measured (\d{4}-\d\d-\d\d|before this release)", image)
    assert re.search(r"Python 3\.\d+", image)


def test_benchmarks_write_the_day_and_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    sentence = import_module("measures.machine").measured()
    assert re.fullmatch(
        r"Measured \d{4}-\d\d-\d\d( at [0-9a-f]{12}( with changes)?)? on \S+ \S+, \d+ processors( \(.+\))?\.", sentence
    )


def test_charts_show_calls_over_both_transports_imports_and_models() -> None:
    assert {chart.file for chart in charts.CHARTS} == set(PROGRAMS)


PROGRAMS = {
    "readme_server.md": ("measures/readme_server",),
    "stdio.md": ("stdio", "stdio_table"),
    "http.md": ("over_http",),
    "imports.md": ("imports",),
    "models.md": ("measures/models",),
}


@pytest.mark.parametrize("chart", charts.CHARTS, ids=lambda chart: chart.title.partition(":")[0])
def test_what_a_chart_shows_is_what_its_program_writes(chart: charts.Chart) -> None:
    """A result that is measured again has the same rows, or the chart would not be found in it."""
    paths = [ROOT / "benchmarks" / f"{name}.py" for name in PROGRAMS[chart.file]]
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    assert [row for row in chart.rows if f'"{row}"' not in text] == []
    title = chart.section.partition(", ")[0].removeprefix("10,000 ").lower()
    assert title in text


def test_a_bar_is_as_long_as_its_value(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = "# T\n\nMeasured 2030-01-01.\n\n| import | ms | MiB | ms |\n| --- | --- | --- | --- |\n"
    (tmp_path / "times.md").write_text(f"{table}| ours, all | 10 | 1 | 7 |\n| other | 40 | 2 | 9 |\n")
    monkeypatch.setattr(charts, "RESULTS", tmp_path)
    image = charts.figure(
        charts.Chart("times.md", "", ("ms",), ("ours", "other"), "Times: shorter is better", "flipped")
    )
    assert [float(width) for width in re.findall(r'class="bar \w+" .*?width="([\d.]+)"', image)] == [107, 428]
    assert "Times: shorter is better. Measured 2030-01-01.<" in image


def test_a_long_table_has_a_row_for_each_bar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = "# T\n\nMeasured 2030-01-01.\n\n| value | server | median | ratio |\n| --- | --- | --- | --- |\n"
    (tmp_path / "calls.md").write_text(f"{table}| start, ms | other | 40 |  |\n| start, ms | ours | 1,000 | 25 |\n")
    monkeypatch.setattr(charts, "RESULTS", tmp_path)
    image = charts.figure(
        charts.Chart("calls.md", "", ("start, ms",), ("ours", "other"), "Calls: more is better", "long")
    )
    assert re.findall(r'class="bar (\w+)" .*?width="([\d.]+)"', image) == [("ours", "428"), ("peer", "17.12")]


def test_a_chart_without_its_row_is_an_error() -> None:
    chart = charts.CHARTS[0]._replace(rows=("cups of tea a second",))
    with pytest.raises(charts.ChartError, match="there is no row 'cups of tea a second'"):
        charts.figure(chart)


# ---- differences ----------------------------------------------------------------------------------------------------


def test_each_version_but_the_first_has_a_page_of_changes_that_its_list_leads_to(texts: dict[str, str]) -> None:
    versions = sorted(REVISIONS)
    assert list(differences.pages()) == [f"changes/{version}.md" for version in versions[1:]]
    for before, after in pairwise(versions):
        page = texts[f"changes/{after}.md"]
        assert page.startswith(f"# Changes from {before} to {after}\n")
        assert f"]({f'changes/{after}.md'}): " in differences.list_of_pages()
        rows = len(re.findall(r"^\| `", page, re.M))
        assert f"\n{rows} changes, of which " in page and rows > 10
    assert "| `ping (client to server)` | method-removed | client |" in texts["changes/2026-07-28.md"]


# ---- texts for language models --------------------------------------------------------------------------------------


def test_llms_txt_has_every_page_of_the_navigation_with_a_sentence(texts: dict[str, str]) -> None:
    text = llms.index(texts["index.md"], navigation.sections(), texts)
    assert text.startswith("# mcp-codegen\n\n> mcp-codegen is a Python implementation")
    for section in navigation.sections():
        assert f"\n## {section.title}\n" in text
        for page in section.pages:
            assert re.search(rf"^- \[.+\]\({re.escape(page.path.removesuffix('.md'))}\.html\): \S", text, re.M), page


def test_llms_full_txt_has_all_pages_as_plain_text(texts: dict[str, str]) -> None:
    text = llms.full(texts)
    assert [path for path in texts if f"<!-- {path} -->\n\n#" not in text] == []
    assert not re.search(r"^```\{|^<!-- test:|^\([a-z-]+\)=", text, re.M)


# ---- reference ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", reference.MODULES)
def test_every_public_name_is_in_the_reference(name: str, texts: dict[str, str]) -> None:
    module = import_module(name)
    names = reference.public_names(module)
    prefix = reference.page_of(name).removesuffix(".md")
    pages = [text for path, text in texts.items() if path == f"{prefix}.md" or path.startswith(f"{prefix}-")]
    assert names
    targets = [f"({reference.anchor(module, one)})=" for one in names]
    assert [target for target in targets if sum(page.count(target) for page in pages) != 1] == []


def test_a_docstring_becomes_lists_and_blocks(texts: dict[str, str]) -> None:
    page = texts["reference/mcp_generated-Context.md"]
    assert "*Args*\n\n* `message`: Why the user needs to visit the URL." in page
    assert not re.search(r"^(Args|Returns|Raises):$", page, re.M)
    assert " object at 0x" not in "".join(texts.values())
