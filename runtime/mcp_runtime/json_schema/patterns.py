"""A regular expression goes in, about how many states an automaton for it has comes out."""

from __future__ import annotations

import re
from typing import Final

_MAX_SIZE: Final = 10**9

# A repetition with a count, a class or an escape as one state each, a parenthesis, or any other character.
_TOKEN: Final = re.compile(r"\{(\d{1,9})(,?)(\d{0,9})\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(.)", re.DOTALL)


def automaton_size(pattern: str) -> int:
    """The length of the pattern with counted repetitions written out, up to 10⁹."""
    sums, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        least, comma, most = token[1], token[2], token[3]
        if token[0] == "(":
            sums.append(0)
            last = 1
            continue
        if token[0] == ")" and len(sums) > 1:
            last = sums.pop() + 1
        elif least is not None:
            times = int(most) if most else int(least) + (1 if comma else 0)
            sums[-1] -= last
            last = min(last * max(times, 1), _MAX_SIZE)
        else:
            last = 1
        sums[-1] = min(sums[-1] + last, _MAX_SIZE)
    return min(sum(sums), _MAX_SIZE) + 1
