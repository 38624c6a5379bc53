"""Names that gensim's users look for and that `WordVectors` does not have, and what has them."""

# Name -> what to write instead.
INSTEAD = {
    "add_vector": "`WordVectors(words, center)`, which makes new ones: vectors do not change",
    "add_vectors": "`WordVectors(words, center)`, which makes new ones: vectors do not change",
    "cosine_similarities": "`1 - vectors.distances(word)`",
    "evaluate_word_analogies": "`exfam.vectors.evaluate_analogies`",
    "evaluate_word_pairs": "`exfam.vectors.evaluate_similarity`",
    "fill_norms": "`norms`, which is filled when it is first used",
    "get_index": "`code(word)`",
    "get_normed_vectors": "`vectors.center / vectors.norms[:, None]`",
    "get_vecattr": "`vocabulary_.counts` of a fitted model",
    "get_vector": "`vectors[word]`",
    "has_index_for": "`word in vectors`",
    "index2entity": "`words`",
    "index2word": "`words`",
    "init_sims": "`norms`, which is filled when it is first used",
    "load_word2vec_format": "`WordVectors.load(path)`",
    "most_similar_cosmul": '`analogy(a, b, c, rule="3cosmul")`',
    "rank_by_centrality": "`distances(get_mean_vector(words), words)`",
    "relative_cosine_similarity": "`similarity(a, b)` over the sum of `most_similar(a)`",
    "save_word2vec_format": '`save(path, format="word2vec")`',
    "set_vecattr": "an array in the order of `words`",
    "similar_by_key": "`most_similar(word)`",
    "unit_normalize_all": "`vectors.center / vectors.norms[:, None]`",
    "vectors_for_all": "`WordVectors(tuple(words), vectors[words])`",
    "vectors_norm": "`vectors.center / vectors.norms[:, None]`",
    "vocab": "`index`",
    "wmdistance": "`n_similarity(a, b)`, the cosine of two means",
    "word_vec": "`vectors[word]`",
    "words_closer_than": "`closer_than(a, b)`",
}


def absent_attribute(name: str) -> str:
    """What the error of a missing attribute says: what to write, where gensim has the name."""
    message = f"'WordVectors' object has no attribute {name!r}"
    return f"{message}. Use {INSTEAD[name]}." if name in INSTEAD else message
