"""One run of one subject: meters around its calls, and fresh processes for what needs them."""
