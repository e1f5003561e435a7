"""The wire: what orchestrator, workers and writers say to each other. Models only, no logic."""
