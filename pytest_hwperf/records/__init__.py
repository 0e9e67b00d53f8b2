"""The nouns: records that all parts exchange, in base units, and how they are written, read and parsed; pure."""
