"""Networks of language models and of sentence classifiers."""
