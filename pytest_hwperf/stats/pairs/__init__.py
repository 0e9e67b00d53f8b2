"""Whether pairs of processes show a change."""
