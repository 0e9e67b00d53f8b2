"""What is decided of a test and of a build."""
