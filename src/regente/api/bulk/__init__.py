"""Bulk actions: rows that are processed in chunks, by another process if the first one dies."""
