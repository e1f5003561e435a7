"""Rounds of a league: discover a round's matches, one task for each, scrape them, store each match
whole or not at all."""
