"""Calls to external HTTP services: bounded in size and time, traced, with masked secrets."""
