"""Versions of a model, compared without pytest."""
