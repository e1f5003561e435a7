"""The doctor's checks, by subject. Each is an async function from an `Examination` to findings, and
changes nothing."""
