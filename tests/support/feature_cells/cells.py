"""A cell: a peer with a revision over a transport; and the reasons for what a peer cannot do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from support.endpoints import ALL_REVISIONS

REVISIONS: Final = tuple(rev.id for rev in ALL_REVISIONS)
NEWEST: Final = REVISIONS[-1]
OWN, PYTHON_1, PYTHON_2 = "own clients", "Python SDK 1.30", "Python SDK 2.3"
FASTMCP, TYPESCRIPT_1, TYPESCRIPT_2 = "FastMCP 4.1", "TypeScript SDK 1.32", "TypeScript SDK 2.4"
INSPECTOR: Final = "Inspector 2.12"
GO, RUST, JAVA = "Go SDK 1.8", "Rust SDK 3.11", "Java SDK 2.1"
BALANCED: Final = "balanced"  # The transport of HTTP through a proxy, which distributes requests to several processes.
PEERS: Final = {
    OWN: REVISIONS,
    PYTHON_1: REVISIONS[:-1],
    PYTHON_2: REVISIONS,
    FASTMCP: REVISIONS,
    TYPESCRIPT_1: REVISIONS[:-1],
    TYPESCRIPT_2: REVISIONS,
    INSPECTOR: REVISIONS[-2:],
    GO: REVISIONS,
    RUST: REVISIONS,
    JAVA: REVISIONS[:-1],
}
BUILT: Final = {GO: "go", RUST: "rust", JAVA: "java"}
"""The SDKs whose peers are built, and the folders of their sources; `nox -s sdks` runs their cells."""


@dataclass(frozen=True)
class Cell:
    """A peer with a revision over a transport."""

    peer: str
    revision: str
    transport: str

    def __str__(self) -> str:
        return f"{self.peer}-{self.revision}-{self.transport}".replace(" ", "_")

    @property
    def discovers(self) -> bool:
        """Whether the peer sends `server/discover` to the process that it uses: the TypeScript SDK starts another."""
        return self.peer != OWN and (self.peer, self.transport) != (TYPESCRIPT_2, "stdio")

    def reason(self, *needs: str) -> Reason | None:
        """Return why the cell cannot do what a feature needs; None if it can."""
        return next(
            (reason for need in needs for reason in REASONS if reason.need == need and reason.holds(self)), None
        )


class Reason(NamedTuple):
    """Why peers cannot do what a feature needs."""

    need: str
    holds: Callable[[Cell], bool]
    text: str


def is_stateless(cell: Cell) -> bool:
    """Return whether requests over HTTP have no session."""
    return cell.transport == "mounted" or (cell.transport != "stdio" and cell.revision == NEWEST)


def has_no_server_requests(cell: Cell) -> bool:
    """Return whether the server can send no request of its own."""
    return cell.transport == "mounted" and cell.revision != NEWEST


NO_REQUESTS: Final = "without sessions over HTTP, a server cannot send requests to clients of versions with a handshake"
REASONS: Final = (
    Reason("elicitation", lambda cell: cell.revision < "2025-06-18", "2024-11-05 and 2025-03-26 have no elicitation"),
    Reason("URL elicitation", lambda cell: cell.revision < "2025-11-25", "URLs are elicited since 2025-11-25"),
    *(
        Reason(need, has_no_server_requests, NO_REQUESTS)
        for need in ("elicitation", "URL elicitation", "sampling", "roots")
    ),
    *(
        Reason(need, lambda cell: cell.peer == INSPECTOR, "the command line of the Inspector does not answer requests")
        for need in ("elicitation", "URL elicitation", "sampling", "roots")
    ),
    Reason("log", lambda cell: cell.peer == INSPECTOR, "the command line of the Inspector prints no notifications"),
    Reason(
        "log",
        lambda cell: cell.peer == JAVA,
        "the Java SDK reads log messages only if their data is text, and in any order",
    ),
    Reason(
        "progress", lambda cell: cell.peer == INSPECTOR, "the command line of the Inspector prints no notifications"
    ),
    Reason("log", lambda cell: cell.transport == "mounted", "a JSON response has no messages before it"),
    Reason("progress", lambda cell: cell.transport == "mounted", "a JSON response has no messages before it"),
    Reason(
        "session", lambda cell: cell.peer == INSPECTOR, "the command line of the Inspector connects for one request"
    ),
    Reason("session", is_stateless, "a request over HTTP without a session has no state of a session"),
    Reason(
        "process",
        lambda cell: (cell.peer, cell.transport) == (INSPECTOR, "stdio"),
        "over stdio, the command line of the Inspector starts a process for one request",
    ),
    Reason(
        "process",
        lambda cell: cell.transport == BALANCED,
        "through a proxy, any of several processes serves a call, and what this middleware counts or stores is of one",
    ),
    Reason("changes", lambda cell: cell.peer == INSPECTOR, "the command line of the Inspector prints no notifications"),
    Reason("changes", has_no_server_requests, "without sessions over HTTP, there is no stream of notifications"),
    Reason(
        "changes",
        lambda cell: (cell.peer, cell.revision) == (FASTMCP, NEWEST),
        "the client of FastMCP opens no subscriptions",
    ),
    Reason(
        "unlisted tools",
        lambda cell: cell.peer == INSPECTOR,
        "the command line of the Inspector calls listed tools only",
    ),
    Reason("completion", lambda cell: cell.peer == INSPECTOR, "the command line of the Inspector has no completion"),
    *(
        Reason(
            "error of 429",
            lambda cell, peer=peer: (cell.peer, cell.revision, cell.transport) == (peer, NEWEST, "http"),
            f"the {peer.partition(' SDK')[0]} SDK shows the status 429 instead of the error in the response",
        )
        for peer in (GO, RUST)
    ),
)


MOUNTED: Final = {OWN: ("2025-06-18", NEWEST), PYTHON_2: ("2025-11-25", NEWEST), TYPESCRIPT_2: ("2025-11-25",)}


def balanced_cells(peer: str) -> list[Cell]:
    """Return the cells of a peer through a proxy: all its revisions; none of a peer that is built."""
    return [] if peer in BUILT else [Cell(peer, revision, BALANCED) for revision in PEERS[peer]]


def cells(peer: str) -> list[Cell]:
    """Return the cells of a peer: all its revisions over stdio and HTTP, and some without sessions."""
    rows = [Cell(peer, revision, transport) for revision in PEERS[peer] for transport in ("stdio", "http")]
    if peer == INSPECTOR:  # It starts a process for each request, and stdio is the same for both its versions.
        rows.remove(Cell(peer, NEWEST, "stdio"))
    if peer == RUST:  # It has no transport with two endpoints.
        rows.remove(Cell(peer, "2024-11-05", "http"))
    return [*rows, *(Cell(peer, revision, "mounted") for revision in MOUNTED.get(peer, ()))]


# ---- what a peer receives --------------------------------------------------------------------------------------------


def text(outcome: dict[str, Any]) -> str:
    """Return the text of a tool's result, which must not be an error."""
    assert "result" in outcome and not outcome["result"].get("isError"), outcome
    [content] = outcome["result"]["content"]
    return str(content["text"])


def refused(cell: Cell, outcomes: list[dict[str, Any]]) -> None:
    """Check that the first request is refused in words."""
    outcome = outcomes[0]
    if "error" in outcome:
        assert outcome["error"]["message"].strip(), outcome
    else:
        assert outcome["result"]["isError"] is True and outcome["result"]["content"][0]["text"].strip(), outcome
