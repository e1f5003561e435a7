"""Sign-in by OpenID Connect, with a certified provider as a process of its own."""
