"""Random inputs against every door of exfam: `make fuzz`, or `python -m fuzz --help`."""
