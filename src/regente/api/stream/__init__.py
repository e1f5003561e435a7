"""The live feed over HTTP (`GET /api/stream`): one reader of the feed in each process, whatever the
number of its clients.

`feed.py` reads and keeps the latest events in a ring, `subscription.py` is one client's way through
it, `event_stream.py` sends it.
"""
