"""The size of regular expressions: an estimate of the states of an automaton for a pattern."""

from __future__ import annotations

import re
from typing import Final

_MAX_SIZE: Final = 10**9

# A counted repetition, an escape or a character class (one state each), or any other character. A class that is not
# closed reaches to the end: else, each of its characters would be read up to there.
_TOKEN: Final = re.compile(
    r"\{(\d{1,9})(,?)(\d{0,9})\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*(?:\]|(?P<open>\\?\Z))|.", re.DOTALL
)


def automaton_size(pattern: str) -> int:
    """Return the length of the pattern with counted repetitions expanded, at most 10⁹."""
    sums, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        minimum, comma, maximum = token[1], token[2], token[3]
        if token[0] == "(":
            sums.append(0)
            last = 1
            continue
        if token[0] == ")" and len(sums) > 1:
            last = sums.pop() + 1
        elif minimum is not None:
            times = int(maximum) if maximum else int(minimum) + (1 if comma else 0)
            sums[-1] -= last
            last = min(last * max(times, 1), _MAX_SIZE)
        else:
            last = 1 if token["open"] is None else len(token[0])
        sums[-1] = min(sums[-1] + last, _MAX_SIZE)
    return min(sum(sums), _MAX_SIZE) + 1
