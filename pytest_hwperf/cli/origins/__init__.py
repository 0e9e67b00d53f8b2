"""Files of other programs, read as reports of this one; they may come from anyone."""
