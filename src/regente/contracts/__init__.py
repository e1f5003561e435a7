"""Wire models between orchestrator, workers and writers; models only, no logic."""
