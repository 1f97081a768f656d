"""`python -m mcp_products.tooling.convert`: convert messages between versions, for `mcp-codegen vectors`.

The first line of standard input has the steps between neighbouring versions, as a literal of Python. Each further line
is a task in JSON: `source`, `target`, `direction`, `method`, and `params` or `result`. Each line of the output answers
one: the other `method` with its `value` and what it lost, or the rule that refused it.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import IO, Any

from mcp_products.versions.conversion import Chain, ConversionReport
from mcp_products.versions.conversion.operations import Operations
from mcp_runtime.errors import ConversionError


def main(given: IO[str] = sys.stdin, out: IO[str] = sys.stdout) -> None:
    """Convert what the lines of a stream have, and write an answer to each."""
    written = ast.literal_eval(next(given))
    order: Sequence[str] = written["order"]
    steps = {pair: Operations(step) for pair, step in written["steps"].items()}

    @cache
    def chain(source: str, target: str) -> Chain:
        first, last = order.index(source), order.index(target)
        path = order[first : last + 1] if first <= last else order[last : first + 1][::-1]
        return Chain(source, target, [steps[pair] for pair in pairwise(path)])

    for line in given:
        task = json.loads(line)
        print(json.dumps(converted(chain(task["source"], task["target"]), task)), file=out)


def converted(chain: Chain, task: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a chain makes of the params or the result of a task, or why it refuses them."""
    where = task["direction"], task["method"]
    removed = chain.removed_method(*where)
    if removed is not None:
        return {"refused": f"method {task['method']}", "reason": removed.reason}
    report = ConversionReport()
    try:
        if "params" in task:
            value = chain.params(*where, task["params"], report, {"client_capabilities": task["capabilities"]})
        else:
            value = chain.result(*where, task["result"], report)
    except ConversionError as error:
        return {"refused": error.rule, "reason": str(error)}
    lost = [{"at": loss.path, "rule": loss.rule} for loss in report.losses]
    return {"method": chain.method(*where), "value": value, "lost": lost}


if __name__ == "__main__":
    main()
