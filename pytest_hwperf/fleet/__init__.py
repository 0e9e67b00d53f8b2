"""A fleet: the gate of one build on several machines of several kinds, each of which runs all of it."""
