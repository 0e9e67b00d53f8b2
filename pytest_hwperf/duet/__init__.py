"""Fresh processes that obey: one at a time for memory and cold starts, in pairs for everything that is timed."""
