"""Pipelines to learn from. The demo runs them."""
