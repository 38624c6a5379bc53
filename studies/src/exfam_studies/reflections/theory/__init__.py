"""How far context vectors are reflections of word vectors: reports and checks of the theory."""
