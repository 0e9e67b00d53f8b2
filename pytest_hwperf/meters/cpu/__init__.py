"""CPU time of this process."""
