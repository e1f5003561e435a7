"""Authentication and roles. A route without a role cannot be added."""
