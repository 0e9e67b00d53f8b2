"""Where baselines live."""
