"""The sections of a report, one file each: what is said, and when it is left out and why."""
