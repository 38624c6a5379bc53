"""A table's linear network as an exact mixture of experts: each cell of a row is one."""
