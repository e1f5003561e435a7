"""Wire models between Regente, workers and writers; models only, no logic."""
