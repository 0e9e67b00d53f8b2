"""How calls arrive: generators of load, which call and note when."""
