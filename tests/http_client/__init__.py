"""Calls to third parties."""
