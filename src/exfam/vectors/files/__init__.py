"""Files of word vectors: word2vec text and binary, GloVe, fastText, safetensors."""

from exfam.vectors.files.formats import VECTOR_FORMATS, detect_format
from exfam.vectors.files.reading import read_vectors
from exfam.vectors.files.rows import StoredVectors
from exfam.vectors.files.writing import write_vectors

__all__ = ["VECTOR_FORMATS", "StoredVectors", "detect_format", "read_vectors", "write_vectors"]
