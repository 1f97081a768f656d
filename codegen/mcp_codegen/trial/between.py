"""The conversations of a trial between revisions: what does not work becomes a finding, which says what to write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ..catalog import SchemaCatalog
from ..errors import Finding
from .plan import PlanMaker
from .programs import last_line, run_program
from .remedies import AGAIN, remedy

_PROGRAM: Final = "pairs.py"
_MAX_FINDINGS: Final = 20


def converse_in_pairs(schemas: SchemaCatalog, folder: Path, package: str, has_app: bool) -> Iterator[Finding]:
    """Let each revision serve clients of each other one, with a class and with the app, over each transport. Yield a
    finding for each place that does not work; the text names a conversation, and how many others fail like it."""
    revisions: dict[str, Any] = {}
    for name in schemas.pins:
        plan = PlanMaker(schemas.revision(name), schemas.normalized(name)[0]).plan()
        revisions[name] = {**plan, "types": {}, "module": schemas.revision(name).module}
    whole = {"package": package, "revisions": revisions, **({"app": package} if has_app else {})}
    plan_file = folder / "pairs.json"
    plan_file.write_text(json.dumps(whole), encoding="utf-8")
    done = run_program(_PROGRAM, plan_file, folder)
    if done is None or done.returncode:
        text = f"the conversations between revisions stopped: {last_line(done)}; {AGAIN}"
        yield Finding("conversation", "pairs", text)
        return
    result = json.loads(done.stdout)
    alike: dict[tuple[str, str], list[str]] = {}
    for problem in result["problems"]:
        alike.setdefault((problem["at"], problem["text"]), []).append(problem["cell"])
    for (at, text), cells in list(alike.items())[:_MAX_FINDINGS]:
        others = f" (and {len(cells) - 1} more of {result['cells']} conversations)" if len(cells) > 1 else ""
        yield Finding("conversation", at, f"{at} does not work for {cells[0]}{others}: {text}; {remedy(text)}")
