"""Why something changed."""
