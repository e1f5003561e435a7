"""Document 000, the scraping orchestrator, section by section, on a deployment that has conducted a
day of missions. Where something else than its sentence is true, docs/deviations.md has it."""
