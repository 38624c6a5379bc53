"""Models that predict a column of a table whose test rows are of another kind than those fitted."""
