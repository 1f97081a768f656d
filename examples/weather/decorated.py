"""The weather server with functions: type hints and docstrings become the schemas of the tools.

Run it: `python examples/weather/decorated.py stdio`, or `… http 8000` with the endpoint /mcp. The environment variables
are those of server.py.
"""

import os
import sys
from typing import Annotated, Final

from nws import Service, ServiceError
from pydantic import Field

from mcp_generated import App

READS: Final = {"readOnlyHint": True, "openWorldHint": True}

app = App("weather", "Weather of the United States.", version="1.0", tool_errors=(ServiceError,))
service = Service.configured(os.environ)


@app.tool(annotations=READS)
def get_alerts(state: Annotated[str, Field(min_length=2, max_length=2)]) -> str:
    """Active weather alerts of a US state.

    Args:
        state: Two-letter code of a US state or territory, such as CA or NY.
    """
    return service.alerts(state)


@app.tool(annotations=READS)
def get_forecast(
    latitude: Annotated[float, Field(ge=-90, le=90)], longitude: Annotated[float, Field(ge=-180, le=180)]
) -> str:
    """Weather forecast for a place in the United States.

    Args:
        latitude: Latitude of the place, in degrees.
        longitude: Longitude of the place, in degrees.
    """
    return service.forecast(latitude, longitude)


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        app.run("http", port=int(sys.argv[2]) if len(sys.argv) > 2 else 8000)
    else:
        app.run("stdio")
