"""Training runs: specified, stored, swept."""
