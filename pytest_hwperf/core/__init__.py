"""The pure part: records, estimates, comparisons and verdicts, without clock, files or processes."""
