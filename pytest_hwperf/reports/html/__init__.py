"""The report as one HTML file: complete, without a network, readable without its scripts where it matters most."""
