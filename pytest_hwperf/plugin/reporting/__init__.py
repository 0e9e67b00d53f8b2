"""What a session says at its end, and what it keeps."""
