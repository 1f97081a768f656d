"""Questions find their tool among 1,000; half of them were kept apart while the search was tuned."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from support.project import ROOT

from mcp_products.code_mode.search import FunctionIndex, stem, stems_of

sys.path.insert(0, str(ROOT / "benchmarks" / "code_mode"))

from thousand_tools import FOLDER, questions, tools

HELD_OUT = Path(__file__).with_name("held_out.txt")


@pytest.mark.parametrize("path", [FOLDER / "questions.txt", HELD_OUT], ids=["tuned", "held out"])
def test_the_right_tool_is_among_the_first_five_for_95_of_100_questions(path: Path) -> None:
    definitions = list(tools())
    names = [tool["name"] for tool in definitions]
    index = FunctionIndex(definitions)
    asked = questions(path)
    assert (len(definitions), len(asked)) == (1000, 100) and {tool for tool, _ in asked} <= set(names)
    missed = [tool for tool, text in asked if tool not in [names[number] for number in index.ranked(text)[:5]]]
    assert len(missed) <= 5, missed


@pytest.mark.parametrize(
    "words", ["invoice invoices invoicing", "query queries", "policy policies", "box boxes", "print printing prints"]
)
def test_forms_of_a_word_have_one_stem(words: str) -> None:
    assert len({stem(word) for word in words.split()}) == 1


def test_names_are_split_at_humps_and_words_without_content_are_left_out() -> None:
    assert stems_of("getOrderByID the HTTPServer") == ["get", "ord", "id", "http", "serv"]


def test_a_long_query_costs_no_more_than_its_words() -> None:
    index = FunctionIndex(list(tools()))
    start = time.process_time()
    assert index.ranked("zzz " * 250) == []
    assert time.process_time() - start < 0.1
