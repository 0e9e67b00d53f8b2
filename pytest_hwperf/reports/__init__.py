"""Output formats: a report in, bytes or lines out; no file is opened here."""
