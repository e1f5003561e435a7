"""`regente demo`: 24 missions through sessions, proxies, scraping and storage, with faults."""
