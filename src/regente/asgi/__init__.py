"""Helpers for every ASGI application here: sockets, a server, request limits."""
