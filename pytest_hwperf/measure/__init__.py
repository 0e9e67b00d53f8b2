"""Warm up, call in windows between meter readings, stop when the core says enough."""
