"""Arithmetic and decisions on records; pure: no clock, file, process or pytest."""
