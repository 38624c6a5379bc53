"""What reports say of models of fields, a section each."""
