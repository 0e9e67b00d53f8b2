"""Warm up, call in windows between meter readings, stop when `stats/` says enough."""
