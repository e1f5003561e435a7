"""One standalone program per peer. Each runs in its peer's own environment and speaks the protocol
of `protocol.py`."""
