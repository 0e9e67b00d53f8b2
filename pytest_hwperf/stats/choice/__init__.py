"""Which version, form or batch size is the better one."""
