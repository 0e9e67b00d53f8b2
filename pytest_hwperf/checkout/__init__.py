"""The baseline's code: its revision, its work tree, the tests laid over it, and the proof that it is what ran."""
