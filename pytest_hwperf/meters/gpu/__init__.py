"""Meters of GPUs, and the library of their driver that those of energy read too."""
