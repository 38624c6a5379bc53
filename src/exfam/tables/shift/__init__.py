"""What has changed between two tables, and which columns carry it."""
