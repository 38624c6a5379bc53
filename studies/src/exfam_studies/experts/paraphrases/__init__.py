"""Why linear word analogies hold or fail: word sets that paraphrase each other."""
