"""`hwperf doctor`: what can be measured on this machine, and what makes it noisy."""
