"""Files of word vectors: word2vec text and binary, GloVe, fastText, safetensors."""

from exfam.data.vector_files.formats import FORMATS, detect_format
from exfam.data.vector_files.reading import read_vectors
from exfam.data.vector_files.writing import write_vectors

__all__ = ["FORMATS", "detect_format", "read_vectors", "write_vectors"]
