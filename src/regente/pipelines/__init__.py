"""The built-in pipelines, one folder each. None imports another."""
