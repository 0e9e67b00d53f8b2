"""Benchmarks, one folder for each question: `python -m benchmarks` lists them."""
