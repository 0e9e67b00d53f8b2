"""What a fresh process of a test does instead of judging."""
