"""The doctor's checks, by subject: read-only functions from a CheckContext to findings."""
