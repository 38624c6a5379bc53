"""Networks and counts behind the estimators of groups."""
