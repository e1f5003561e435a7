"""Reference HTTP services: the far ends of the contracts, and a place to try them. They know
`regente.contracts` only."""
