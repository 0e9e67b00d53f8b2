"""This machine, its files, folders, processes and clocks: what every part may use."""
