"""What stored runs say of a new one."""
