"""Context vectors are reflections of word vectors in half the dimensions."""
