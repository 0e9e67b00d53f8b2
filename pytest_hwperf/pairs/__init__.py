"""Two fresh processes, alive together, that take turns at the same measurement."""
