"""Reports about word vectors: scores, neighbors, analogies, and the shape of the cloud."""
