"""Who may come in, and what they may do there. Closed by default: a route without a role cannot be
added."""
