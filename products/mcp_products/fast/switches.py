"""The switches of the fast paths.

`MCP_FAST_PATHS=0` in the environment selects the plain asyncio code, which behaves the same, for debugging and for
tests.
"""

from __future__ import annotations

from typing import Final

from mcp_runtime.usage import rules

ENABLED: Final = rules.is_switched_on(rules.FAST_PATHS)

# A server over stdio polls for the next message for 50 µs before it sleeps, if the last one came that soon.
BUSY_POLL: Final = rules.is_switched_on(rules.BUSY_POLL) and ENABLED
