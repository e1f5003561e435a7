"""Bulk actions: one row each, dealt with in chunks, taken over by another
process when theirs dies."""
