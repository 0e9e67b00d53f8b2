"""How much a service bears, and what it costs."""
