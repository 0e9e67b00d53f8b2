"""What a session was asked for, and what is known of each test."""
