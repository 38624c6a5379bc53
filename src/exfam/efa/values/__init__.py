"""The simple model of values: a factor model of groups and items with one small likelihood head."""
