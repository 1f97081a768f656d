"""The page of the table of features: which peers use a feature, and why some cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from support.feature_cells.cells import PEERS, REASONS, balanced_cells, cells
from support.feature_cells.feature_rows import FEATURES, Feature
from support.feature_cells.server_rows import OFFERS, SERVED, reason, server_cells
from support.project import ROOT

PAGE: Final = ROOT / "docs" / "feature-cells.md"
TEXTS: Final = list(dict.fromkeys(reason.text for reason in REASONS))
HEAD: Final = """# Features and the clients that use them

One app with all features serves clients of this project and of others, in all protocol versions that they have, over
stdio and HTTP, and through nginx before four processes that share a Redis. `tests/interop/features/` tests each entry,
and a custom route of the same server. The clients that are compiled are not run through nginx:
`tests/interop/sdks/` tests theirs (`nox -s sdks`), and a bridge and a gateway before servers of other versions.
A number is a reason, listed below, why some versions or transports of a client do without. The test asserts as well
what these clients get instead: an error in words, or a result without the messages before it.

"""


SERVERS: Final = """
## Servers that our clients use

A server of each SDK that is compiled serves our clients, in all protocol versions that it has, over stdio and HTTP;
through a bridge, in others; and through a gateway.

"""


def entry(feature: Feature, peer: str) -> str:
    """Return "yes" for a feature that a peer uses, or the numbers of the reasons why some of its cells do not."""
    reasons = [cell.reason(*feature.needs) for cell in (*cells(peer), *balanced_cells(peer))]
    numbers = sorted({TEXTS.index(reason.text) + 1 for reason in reasons if reason is not None})
    shown = ", ".join(map(str, numbers))
    if None not in reasons:
        return f"no: {shown}"
    return f"yes, but {shown}" if numbers else "yes"


def page() -> str:
    """Return the text of the page."""
    rows = [["feature", *PEERS], ["---"] * (len(PEERS) + 1)]
    rows += [[feature.name, *(entry(feature, peer) for peer in PEERS)] for feature in FEATURES]
    versions = ["protocol versions", *(f"{versions[0]} to {versions[-1]}" for versions in PEERS.values())]
    rows.insert(2, versions)
    used = {number for row in rows for cell in row[1:] for number in cell.partition("yes, but ")[2].split(", ")}
    used |= {number for row in rows for cell in row[1:] for number in cell.partition("no: ")[2].split(", ")}
    reasons = [f"{number}. {text[0].upper()}{text[1:]}." for number, text in enumerate(TEXTS, 1)]
    assert used - {""} == {str(number) for number in range(1, len(TEXTS) + 1)}, "a reason that no row has"
    return HEAD + table(rows) + "\n" + "\n".join(reasons) + "\n" + servers()


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def servers() -> str:
    """Return the part of the page about servers of other projects."""
    rows = [["feature", *SERVED], ["---"] * (len(SERVED) + 1)]
    rows.append(["protocol versions", *(f"{versions[0]} to {versions[-1]}" for versions in SERVED.values())])
    texts: list[str] = []
    for row in OFFERS:
        entries = [row.name]
        for peer in SERVED:
            reasons = [reason(cell, *row.needs) for cell in server_cells(peer)]
            why = [found.text for found in reasons if found is not None]
            texts += [text for text in dict.fromkeys(why) if text not in texts]
            numbers = ", ".join(str(number) for number in sorted({texts.index(text) + 1 for text in why}))
            entries.append("yes" if not why else f"yes, but {numbers}" if None in reasons else f"no: {numbers}")
        rows.append(entries)
    return (
        SERVERS
        + table(rows)
        + "\n"
        + "".join(f"{number}. {text[0].upper()}{text[1:]}.\n" for number, text in enumerate(texts, 1))
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
