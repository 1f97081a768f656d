"""The page of the table of features: which peers use a feature, and why some cannot."""

from __future__ import annotations

from typing import Final

from support.feature_cells.cells import PEERS, REASONS, balanced_cells, cells
from support.feature_cells.feature_rows import FEATURES, Feature
from support.project import ROOT

PAGE: Final = ROOT / "docs" / "feature-cells.md"
TEXTS: Final = list(dict.fromkeys(reason.text for reason in REASONS))
HEAD: Final = """# Features and the clients that use them

One app with all features serves clients of this project and of others, in all protocol versions that they have, over
stdio and HTTP, and through nginx before four processes that share a Redis. `tests/interop/features/` tests each entry,
and a custom route of the same server.
A number is a reason, listed below, why some versions or transports of a client do without. The test asserts as well
what these clients get instead: an error in words, or a result without the messages before it.

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
    return HEAD + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n\n" + "\n".join(reasons) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
