"""The fleet: workers, proxies and writers. Who they are, how they are spoken to, and how well they
are."""
