"""Memory of this process."""
