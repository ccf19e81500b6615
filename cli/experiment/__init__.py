"""Commands that search and simulate many times."""
