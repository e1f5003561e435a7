"""The pipelines that come with Regente, one folder each. None imports another."""
