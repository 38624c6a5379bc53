"""What reports say of models of tables, a section each."""
