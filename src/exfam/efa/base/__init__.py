"""The simple models inside: scores of items that a good statistician would have used first."""
