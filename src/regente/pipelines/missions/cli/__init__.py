"""`regente missions …` and `regente orchestrator …`."""
