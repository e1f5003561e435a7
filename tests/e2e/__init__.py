"""Journeys through the console in a real browser, against a real `regente serve`."""
