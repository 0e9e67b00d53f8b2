"""Use cases that join several parts, for pytest and for the command line."""
