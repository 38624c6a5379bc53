"""Files of word vectors: word2vec text and binary, GloVe, fastText, safetensors."""
