"""One program per peer, run in the peer's environment with the commands of `protocol.py`."""
