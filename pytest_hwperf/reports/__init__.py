"""Report in, bytes or lines out; nobody opens a file here."""
