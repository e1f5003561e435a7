"""PostgreSQL around the engine: the embedded server, and the doctor for any server."""
