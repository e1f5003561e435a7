"""OpenTelemetry, off unless asked for: `REGENTE_OTEL` (`on`, or a collector's URL) or
`OTEL_EXPORTER_OTLP_ENDPOINT`.

`setup.py` decides and connects, `observer.py` makes the spans. Nobody else knows the library, and
it is loaded only when it is wanted: `pip install regente[otel]`.
"""
