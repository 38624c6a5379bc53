"""Item sets, sequences, ratings, counts and events: each element given its group."""
