"""Reference services of both contracts, and a sandbox. They import `regente.contracts` only."""
