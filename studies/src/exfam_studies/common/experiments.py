"""The papers' tables, recomputed: one module an experiment.

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

__all__ = ["EXPERIMENTS", "Experiment"]


class Experiment(NamedTuple):
    """Where an experiment lives and what it shows."""

    module: str
    title: str


EXPERIMENTS = {
    "efa-synthetic": Experiment(
        "exfam_studies.efa.synthetic",
        "ratings simulated as in Exponential Family Attention, Table 1 left",
    ),
    "efa-movielens-items": Experiment(
        "exfam_studies.efa.movielens_items",
        "which movie is rated next to which: Exponential Family Attention, Table 1 right",
    ),
    "efa-movielens-ratings": Experiment(
        "exfam_studies.efa.movielens_ratings",
        "how movies are rated: Exponential Family Attention, Table 2",
    ),
    "efa-instacart": Experiment(
        "exfam_studies.efa.instacart",
        "which product is in which basket: Exponential Family Attention, section 6.3 and Table 3",
    ),
    "efa-temperature": Experiment(
        "exfam_studies.efa.temperature",
        "temperatures of 44 cities, each given the others: Exponential Family Attention, "
        "section 6.4 and Figure 6",
    ),
    "efa-special-cases": Experiment(
        "exfam_studies.efa.efa_special_cases",
        "latent factor models written as attention: Exponential Family Attention, section 4.1",
    ),
    "efa-generalization": Experiment(
        "exfam_studies.efa.efa_generalization",
        "excess loss by the number of groups, on maps drawn from a known model: "
        "Exponential Family Attention, section 5.2",
    ),
    "efa-identifiability": Experiment(
        "exfam_studies.efa.efa_identifiability",
        "whether fits have the same embeddings up to an affine map: "
        "Exponential Family Attention, Theorem 1",
    ),
    "table-simulation": Experiment(
        "exfam_studies.experts.table_simulation",
        "tables whose columns move together in another way at test: "
        "Bidirectional attention as a mixture of experts, Table 1",
    ),
    "table-autompg": Experiment(
        "exfam_studies.experts.table_autompg",
        "fuel consumption of American cars, then of others: "
        "Bidirectional attention as a mixture of experts, Table 2",
    ),
    "table-shifts": Experiment(
        "exfam_studies.experts.table_shifts",
        "public tables whose test rows are of another kind, and tables with cells missing at test",
    ),
    "analogies": Experiment(
        "exfam_studies.experts.analogies",
        "analogies by sums of token vectors, of attention and of others: "
        "Bidirectional attention as a mixture of experts, Table 3",
    ),
    "tied-movielens": Experiment(
        "exfam_studies.reflections.tied_movielens",
        "movies by EFA and CBOW with free and with reflected vectors",
    ),
    "lstm-table3": Experiment(
        "exfam_studies.reflections.lstm_table3",
        "LSTM language models with tied and reflected outputs: "
        "Context vectors are reflections of word vectors, Table 3",
    ),
    "cbow-factorization": Experiment(
        "exfam_studies.experts.cbow_factorization",
        "what CBOW factorizes, on a toy corpus: "
        "Bidirectional attention as a mixture of experts, section 4.1",
    ),
    "paraphrase": Experiment(
        "exfam_studies.experts.paraphrase",
        "why word analogies hold or fail, term by term: "
        "Bidirectional attention as a mixture of experts, section 4.2",
    ),
    "factorization": Experiment(
        "exfam_studies.experts.factorization",
        "what skip-gram and attention factorize: "
        "Bidirectional attention as a mixture of experts, section 4.2",
    ),
    "expert-weights": Experiment(
        "exfam_studies.experts.expert_weights",
        "words told by those around, weighed alike, by MASK or by the center word: "
        "Bidirectional attention as a mixture of experts, footnote 1",
    ),
    "pmi-spectrum": Experiment(
        "exfam_studies.reflections.pmi_spectrum",
        "signs of the eigenvalues of mutual information: "
        "Context vectors are reflections of word vectors, Figure 2",
    ),
    "involution": Experiment(
        "exfam_studies.reflections.involution",
        "the map from word to context vectors, and its square: "
        "Context vectors are reflections of word vectors, Figure 3",
    ),
    "words-table2": Experiment(
        "exfam_studies.reflections.words_table2",
        "word vectors with free and with reflected contexts, judged by people: "
        "Context vectors are reflections of word vectors, Table 2",
    ),
    "positions-figure2": Experiment(
        "exfam_studies.positions.figure2",
        "how local and symmetric encodings and encoders are: "
        "Locality and symmetry of positional encodings, Figure 2",
    ),
    "positions-fitted": Experiment(
        "exfam_studies.positions.fitted",
        "how local and symmetric the attention of fitted models is, and encodings chosen by it",
    ),
    "positions-figure3": Experiment(
        "exfam_studies.positions.figure3",
        "sentences by attention to positions alone, more or less local and symmetric: "
        "Locality and symmetry of positional encodings, Figure 3",
    ),
    "positions-pretraining": Experiment(
        "exfam_studies.positions.pretraining",
        "masked language models that differ in their encoding alone: "
        "Locality and symmetry of positional encodings, section 3.3.2",
    ),
    "positions-linguistic": Experiment(
        "exfam_studies.positions.positions_linguistic",
        "what encoders know of language by content and by position: "
        "Locality and symmetry of positional encodings, Figure A2",
    ),
    "positions-swaps": Experiment(
        "exfam_studies.positions.positions_swaps",
        "whether swapped words and roles are noticed: "
        "Locality and symmetry of positional encodings, Table 3",
    ),
    "positions-dependencies": Experiment(
        "exfam_studies.positions.positions_dependencies",
        "which attention heads find syntactic dependencies: "
        "Locality and symmetry of positional encodings, Table A3",
    ),
    "words-figure4": Experiment(
        "exfam_studies.reflections.words_figure4",
        "word vectors by the share of dimensions that are not reflected: "
        "Context vectors are reflections of word vectors, Figure 4",
    ),
}
