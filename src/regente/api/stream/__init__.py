"""The live feed over HTTP (`GET /api/stream`): one reader of the feed in each process, whatever the
number of its clients.

`feed.py` reads and keeps the latest events in a ring, `walk.py` is one client's way through it,
`answer.py` sends it.
"""
