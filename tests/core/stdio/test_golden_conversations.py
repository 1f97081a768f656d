"""Every golden conversation, once for each revision it applies to; and the runner finds what is not as it should be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.golden import runner as golden_runner
from support.golden.language import HANDSHAKE, filled
from support.golden.runner import FOLDER, play, read

from mcp_codegen.testkit.peers import difference
from mcp_generated import REVISIONS

# A folder of more conversations, such as those that wait for a change of the runtime.
FOLDERS = [FOLDER, *map(Path, filter(None, [os.environ.get("MCP_MORE_GOLDEN")]))]
FILES = [read(path) for folder in FOLDERS for path in sorted(folder.glob("*.txt"))]
# The revisions between the oldest and the newest one with a handshake are left to the long tests.
LONG = HANDSHAKE[1:-1]


def marks(golden: golden_runner.Golden, revision: str) -> list[pytest.MarkDecorator]:
    long = [pytest.mark.long] if revision in LONG and HANDSHAKE[-1] in golden.revisions else []
    proven = golden.clauses_of(revision)
    return [*long, pytest.mark.clause(*proven)] if proven else long


CASES = [
    pytest.param(golden, revision, id=f"{golden.name}-{revision}", marks=marks(golden, revision))
    for golden in FILES
    for revision in golden.revisions
]


@pytest.mark.parametrize(("golden", "dated"), CASES)
def test_a_golden_conversation_goes_as_it_is_written(golden: golden_runner.Golden, dated: str) -> None:
    play(golden, dated)


@pytest.mark.parametrize("golden", FILES[:1], ids=lambda golden: golden.name)
def test_a_server_that_is_a_new_interpreter_goes_the_same_way(golden: golden_runner.Golden) -> None:
    """The servers of all other conversations are forks of one process."""
    play(golden, golden.revisions[-1], is_fresh=True)


def test_a_file_names_revisions_and_clauses_that_can_be() -> None:
    for golden in FILES:
        assert golden.revisions and set(golden.revisions) <= set(REVISIONS), golden.name
        proven = [clause for revision in golden.revisions for clause in golden.clauses_of(revision)]
        assert sorted(proven) == sorted(golden.clauses), golden.name


@pytest.mark.parametrize(
    ("expected", "received"),
    [
        (1, "1"),
        (1, 1.0),
        (1, True),
        (None, False),
        ("a", "b"),
        ("a...c", "abd"),
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
        (["(any order)", 1, 2], [1, 1]),
        (["(any order)", 1], [1, 1]),
        ({"a": 1}, {}),
        ({"a": "..."}, {}),
        ({}, {"a": 1}),
        ({"a?": 1}, {"a": 2}),
        ({"a": "(absent)"}, {"a": None}),
        ({"a": "(absent or null)"}, {"a": 1}),
        ({"a": {"b": [1]}}, {"a": {"b": [2]}}),
    ],
)
def test_what_differs_is_found(expected: Any, received: Any) -> None:
    assert difference(expected, received)


@pytest.mark.parametrize(
    ("expected", "received"),
    [
        ("...", None),
        ("a...c...", "abbcd"),
        (["(any order)", 1, {"a": 2}], [{"a": 2}, 1]),
        ({"a?": 1}, {}),
        ({"a?": 1}, {"a": 1}),
        ({"a": "(absent)"}, {}),
        ({"a": "(absent or null)"}, {"a": None}),
        ({"a": "(absent or null)"}, {}),
    ],
)
def test_what_may_be_is_let_pass(expected: Any, received: Any) -> None:
    assert difference(expected, received) is None


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ('> {"jsonrpc":"2.0","id":1,"method":"ping"}\n< {"jsonrpc":"2.0","id":1,"result":{"a":1}}', "has no a"),
        ('> {"jsonrpc":"2.0","id":1,"method":"ping"}\n<| nothing', "there is"),
        ('> {"jsonrpc":"2.0","id":1,"method":"ping"}', "before its end the server said"),
        ('> {"jsonrpc":"2.0","id":1,"method":"ping"}\n<~ {"id":2}', "none of the group"),
        ('never: result\n> {"jsonrpc":"2.0","id":1,"method":"ping"}\n< "..."', "is told"),
        ("open\nexit 0", "still runs"),
        ("close\nexit 3", "the exit code is 0"),
        ("! a word", "not on standard error"),
    ],
)
def test_a_conversation_that_goes_otherwise_fails(steps: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text(steps)
    with pytest.raises(AssertionError, match=reason):
        play(read(path), HANDSHAKE[0])


def test_a_line_that_is_nothing_of_the_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text("open\n>> what\n")
    with pytest.raises(ValueError, match="wrong.txt:2"):
        read(path)


def test_lines_are_made_as_long_and_as_deep_as_they_say() -> None:
    assert len(filled('@line 1000 {"é":"$PAD"}', HANDSHAKE[0]).encode()) == 1000
    assert filled("@deep 3 $DEEP", HANDSHAKE[0]) == "[[[]]]"
