"""What every ASGI application here is served with: sockets, a server, request limits."""
