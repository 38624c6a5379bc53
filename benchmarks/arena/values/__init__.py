"""Values of items in groups (ratings, counts): data, distributions, and what they are judged by."""
