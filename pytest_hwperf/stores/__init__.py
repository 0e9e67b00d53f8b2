"""Stores of baselines."""
