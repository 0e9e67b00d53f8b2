"""How sure one figure is."""
