"""A file for each schema."""
