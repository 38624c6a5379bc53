"""Models of table rows: each cell from the others of its row."""
