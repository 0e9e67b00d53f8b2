"""Two models beside each other, without a test: for `hwperf compare` and `hwperf.compare(...)`."""
