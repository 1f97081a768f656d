"""Views of tools: HTML that hosts with the apps extension show with the result of a tool."""
