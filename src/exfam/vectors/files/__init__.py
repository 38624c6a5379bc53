"""Files of word vectors: word2vec text and binary, GloVe, fastText, safetensors."""

from exfam.vectors.files.formats import VECTOR_FORMATS, detect_format, read_vectors, write_vectors
from exfam.vectors.files.rows import StoredVectors

__all__ = ["VECTOR_FORMATS", "StoredVectors", "detect_format", "read_vectors", "write_vectors"]
