"""One pair of processes, from both ends."""
