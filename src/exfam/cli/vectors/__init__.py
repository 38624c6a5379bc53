"""Word vectors on the command line: none of these commands needs torch."""
