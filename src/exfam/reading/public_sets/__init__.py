"""Public data sets: their files, the tables made of them, the splits that papers use."""
