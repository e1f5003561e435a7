"""PostgreSQL around the engine: the embedded server, and the doctor that examines any server."""
