"""A server that Prometheus scrapes, for tests: `python scraped_program.py STORE METRICS_PORT`. It writes its URL."""

from __future__ import annotations

import logging
import sys

from opentelemetry import metrics, trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import start_http_server

from mcp_generated import App, JSONLogFormatter

app, log = App("scraped"), logging.getLogger("shop")


@app.tool
def price(article: str) -> int:
    log.warning("the price of %s", article)
    return 1999


if __name__ == "__main__":
    store, port = sys.argv[1:]
    trace.set_tracer_provider(TracerProvider())
    metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()]))
    start_http_server(int(port), addr="127.0.0.1")
    handler = logging.StreamHandler()
    handler.setFormatter(JSONLogFormatter())
    log.addHandler(handler)
    app.run("http", port=0, store=store)
