"""Metrics and structured logs of OpenTelemetry, for applications that have a provider of metrics."""
