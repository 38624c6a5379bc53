"""The papers' tables, recomputed: one module per experiment, whose first line is its title."""

from pathlib import Path

EXPERIMENTS = {
    "efa-synthetic": "efa.synthetic",
    "efa-movielens-items": "efa.movielens_items",
    "efa-movielens-ratings": "efa.movielens_ratings",
    "efa-instacart": "efa.instacart",
    "efa-temperature": "efa.temperature",
    "efa-special-cases": "efa.special_cases",
    "efa-generalization": "efa.efa_generalization",
    "efa-identifiability": "efa.efa_identifiability",
    "table-simulation": "experts.table_simulation",
    "table-autompg": "experts.table_autompg",
    "table-shifts": "experts.table_shifts",
    "analogies": "experts.analogies",
    "tied-movielens": "reflections.tied_movielens",
    "lstm-table3": "reflections.lstm_table3",
    "cbow-factorization": "experts.cbow_factorization",
    "paraphrase": "experts.paraphrase",
    "factorization": "experts.factorization",
    "expert-weights": "experts.expert_weights",
    "pmi-spectrum": "reflections.pmi_spectrum",
    "involution": "reflections.involution",
    "words-table2": "reflections.words_table2",
    "positions-figure2": "positions.figure2",
    "positions-fitted": "positions.fitted",
    "positions-figure3": "positions.figure3",
    "positions-pretraining": "positions.pretraining",
    "positions-linguistic": "positions.positions_linguistic",
    "positions-swaps": "positions.positions_swaps",
    "positions-dependencies": "positions.positions_dependencies",
    "words-figure4": "reflections.words_figure4",
}


def title(name: str) -> str:
    """The first line of an experiment's module, which is not imported."""
    path = Path(__file__).parents[1].joinpath(*EXPERIMENTS[name].split(".")).with_suffix(".py")
    return path.read_text(encoding="utf-8").partition("\n")[0].strip('"')
