"""`regente demo`: 24 missions through real sessions, proxies, scraping and storage, with every kind
of fault on the way."""
