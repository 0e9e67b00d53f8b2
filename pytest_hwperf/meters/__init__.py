"""One counter each, read at both ends of a window."""
