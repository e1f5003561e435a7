"""The live feed over HTTP (`GET /api/stream`), with one reader of the feed in each process.

`feed.py` reads the latest events into a ring buffer, `subscription.py` selects those of one client,
`event_stream.py` sends them.
"""
