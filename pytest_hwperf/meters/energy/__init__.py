"""Energy: counters of the processor, counters of boards, and an estimate."""
