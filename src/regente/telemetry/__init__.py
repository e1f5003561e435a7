"""OpenTelemetry, off by default: `REGENTE_OTEL` or `OTEL_EXPORTER_OTLP_ENDPOINT` turns it on.

`setup.py` decides and connects, `observer.py` makes the spans. No other module imports the
library, which is loaded only when traces are on: `pip install regente[otel]`.
"""
