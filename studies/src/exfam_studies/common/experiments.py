"""The papers' tables, recomputed: one module per experiment.

An experiment module offers

    TASKS: tuple[str, ...]                                 what `--only` may name
    run(options: Options) -> list[Row]                     fits, scores
    parameters(row: Row, options: Options) -> Mapping[str, Any]
                                                           optional: settings of a row's model that
                                                           differ from the defaults, where its rows
                                                           do not come with them
    plot(rows: list[Row], folder: Path) -> None            optional: writes its figures

To add one: write the module, name it here.
"""

from typing import NamedTuple


class Experiment(NamedTuple):
    """Where an experiment lives and what it shows."""

    module: str
    title: str


def _study(module: str, title: str) -> Experiment:
    return Experiment(f"exfam_studies.{module}", title)


EFA = "Exponential Family Attention"
EXPERTS = "Bidirectional attention as a mixture of experts"
POSITIONS = "Locality and symmetry of positional encodings"
REFLECTIONS = "Context vectors are reflections of word vectors"
EXPERIMENTS = {
    "efa-synthetic": _study("efa.synthetic", f"ratings simulated as in {EFA}, Table 1 left"),
    "efa-movielens-items": _study(
        "efa.movielens_items", f"which movie is rated next to which: {EFA}, Table 1 right"
    ),
    "efa-movielens-ratings": _study(
        "efa.movielens_ratings", f"how movies are rated: {EFA}, Table 2"
    ),
    "efa-instacart": _study(
        "efa.instacart", f"which product is in which basket: {EFA}, section 6.3 and Table 3"
    ),
    "efa-temperature": _study(
        "efa.temperature",
        f"temperatures of 44 cities, each given the others: {EFA}, section 6.4 and Figure 6",
    ),
    "efa-special-cases": _study(
        "efa.efa_special_cases", f"latent factor models written as attention: {EFA}, section 4.1"
    ),
    "efa-generalization": _study(
        "efa.efa_generalization",
        f"excess loss by the number of groups, on maps drawn from a known model: {EFA}, section "
        "5.2",
    ),
    "efa-identifiability": _study(
        "efa.efa_identifiability",
        f"whether fits have the same embeddings up to an affine map: {EFA}, Theorem 1",
    ),
    "table-simulation": _study(
        "experts.table_simulation",
        f"tables whose columns move together in another way at test: {EXPERTS}, Table 1",
    ),
    "table-autompg": _study(
        "experts.table_autompg",
        f"fuel consumption of American cars, then of others: {EXPERTS}, Table 2",
    ),
    "table-shifts": _study(
        "experts.table_shifts",
        "public tables whose test rows are of another kind, and tables with cells missing at test",
    ),
    "analogies": _study(
        "experts.analogies",
        f"analogies by sums of token vectors, of attention and of others: {EXPERTS}, Table 3",
    ),
    "tied-movielens": _study(
        "reflections.tied_movielens", "movies by EFA and CBOW with free and with reflected vectors"
    ),
    "lstm-table3": _study(
        "reflections.lstm_table3",
        f"LSTM language models with tied and reflected outputs: {REFLECTIONS}, Table 3",
    ),
    "cbow-factorization": _study(
        "experts.cbow_factorization",
        f"what CBOW factorizes, on a toy corpus: {EXPERTS}, section 4.1",
    ),
    "paraphrase": _study(
        "experts.paraphrase",
        f"why word analogies hold or fail, term by term: {EXPERTS}, section 4.2",
    ),
    "factorization": _study(
        "experts.factorization", f"what skip-gram and attention factorize: {EXPERTS}, section 4.2"
    ),
    "expert-weights": _study(
        "experts.expert_weights",
        f"words told by those around, weighed alike, by MASK or by the center word: {EXPERTS}, "
        "footnote 1",
    ),
    "pmi-spectrum": _study(
        "reflections.pmi_spectrum",
        f"signs of the eigenvalues of mutual information: {REFLECTIONS}, Figure 2",
    ),
    "involution": _study(
        "reflections.involution",
        f"the map from word to context vectors, and its square: {REFLECTIONS}, Figure 3",
    ),
    "words-table2": _study(
        "reflections.words_table2",
        f"word vectors with free and with reflected contexts, judged by people: {REFLECTIONS}, "
        "Table 2",
    ),
    "positions-figure2": _study(
        "positions.figure2",
        f"how local and symmetric encodings and encoders are: {POSITIONS}, Figure 2",
    ),
    "positions-fitted": _study(
        "positions.fitted",
        "how local and symmetric the attention of fitted models is, and encodings chosen by it",
    ),
    "positions-figure3": _study(
        "positions.figure3",
        "sentences by attention to positions alone, more or less local and symmetric: "
        f"{POSITIONS}, Figure 3",
    ),
    "positions-pretraining": _study(
        "positions.pretraining",
        f"masked language models that differ in their encoding alone: {POSITIONS}, section 3.3.2",
    ),
    "positions-linguistic": _study(
        "positions.positions_linguistic",
        f"what encoders know of language by content and by position: {POSITIONS}, Figure A2",
    ),
    "positions-swaps": _study(
        "positions.positions_swaps",
        f"whether swapped words and roles are noticed: {POSITIONS}, Table 3",
    ),
    "positions-dependencies": _study(
        "positions.positions_dependencies",
        f"which attention heads find syntactic dependencies: {POSITIONS}, Table A3",
    ),
    "words-figure4": _study(
        "reflections.words_figure4",
        f"word vectors by the share of dimensions that are not reflected: {REFLECTIONS}, Figure 4",
    ),
}
