"""Models of tables on the command line."""
