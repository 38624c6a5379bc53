"""
What attention fits, and when
=============================

Four theorems about the models of this library, each as a function that is pointed at data and
fitted models. Each says what it assumes, measures that too, and where an assumption fails it says
which. All data are simulated, so that the truth is known.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from exfam.checks import ExfamError
from exfam.efa.efa import EFA
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam.reading.text import prepare_text
from exfam.words import CBOW
from exfam_studies.efa.attention_process import draw_attention_process
from exfam_studies.efa.clipped_attention import ClippedFieldNetwork, known_clipped_field
from exfam_studies.efa.efa_generalization import (
    ATTRACTION,
    REPULSION,
    SIZES,
    least_loss_fit,
    simulated_maps,
)
from exfam_studies.efa.generalization import measure_fit, model_class
from exfam_studies.efa.identifiability import align, item_embeddings, shuffled_names
from exfam_studies.efa.identifiability_values import check_values, value_counterexample
from exfam_studies.experts.factorized import (
    agreement,
    asymmetry,
    cbow_log_matrix,
    count_word_pairs,
)
from exfam_studies.experts.factorized_attention import (
    AttentionRecipe,
    attention_factors,
    attention_matrix,
    fit_attention,
    gamma_sums,
)
from exfam_studies.experts.paraphrases.analogies import (
    TERMS,
    Factors,
    analogy_errors,
    truncated_factors,
)
from exfam_studies.experts.paraphrases.windows import sentence_windows, text_windows
from exfam_studies.experts.paraphrases.word_sets import WordSets, factorized_matrix
from exfam_studies.experts.toy_sentences import toy_population, toy_sentences

# %%
# Words by the words around them
# ------------------------------
#
# A toy grammar speaks of school subjects: "statistics is difficult and boring". CBOW predicts a
# word from the mean of the others' vectors. Its products of vectors should then be
# log(p(w, c) / p(c)), up to the log of the number of words, and approximations that hold for
# entries near 0.

text = prepare_text([" ".join(words) for words in toy_sentences(3_000, seed=0)], min_count=1)
cbow = CBOW(
    dim=30, window=4, likelihood="softmax", epochs=20, min_count=1, subsample=0.0, progress=False
).fit(text)
products = cbow.output_vectors_ @ cbow.input_vectors_.T
pairs = count_word_pairs(text, window=4)
matrix = cbow_log_matrix(pairs)
print("CBOW,", agreement(products, matrix))
print("which assumes what fails here:", *matrix.failed_assumptions, sep="\n  ")

# %%
# With attention, gamma weighs each word of the context, and the matrix is another one, found from
# gamma of the fitted model. It is less symmetric: attention weighs words by how much they say.

attends = fit_attention(text, 30, AttentionRecipe(apart=10, together=10, rate=1e-3), seed=0)
factors = attention_factors(attends)
sums = gamma_sums(text, factors.log_tau)
of_attention = attention_matrix(sums)
of_fit = factors.words @ factors.contexts.T
print("attention,", agreement(of_fit, of_attention))
print(f"asymmetry of p-bar: {asymmetry(sums.p_bar):.2f}, of p: {asymmetry(pairs.joint):.2f}")

figure, panels = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for axes, name, fitted, wanted in (
    (panels[0], "CBOW", products, matrix),
    (panels[1], "attention", of_fit, of_attention),
):
    axes.scatter(wanted.values[wanted.defined], fitted[wanted.defined], s=12)
    axes.set(title=name, xlabel=wanted.equation, ylabel="product of fitted vectors")
plt.show()

# %%
# Why analogies hold
# ------------------
#
# Let history be to boring as statistics is to fun: vectors add up to the answer as far as the sets
# {statistics, boring} and {fun, history} paraphrase each other (rho), words within each are as
# dependent (Delta), and sets as frequent (delta). On the grammar's exact probabilities nothing
# else is left: Proposition 4 holds to rounding.

sentences, probability = toy_population()
words = WordSets(sentence_windows(sentences, probability=probability), smoothing=0.1)
questions = WordQuestions(
    "toy",
    (
        ("history", "boring", "statistics", "fun"),
        ("sociology", "boring", "mathematics", "fun"),
        ("history", "difficult", "mathematics", "easy"),
        ("mathematics", "easy", "sociology", "difficult"),
    ),
    ("subjects",) * 4,
    {},
)
exact = analogy_errors(truncated_factors(factorized_matrix(words), 5), words, questions)
print(f"residual of Proposition 4: {exact.norms[:, TERMS.index('residual')].max():.1g}")

# %%
# Fitted vectors leave a residual as well. The bars are parts of each gap along it; they sum to 1.

counted = WordSets(text_windows(text, window=4), smoothing=0.1)
small = CBOW(
    dim=8, window=4, likelihood="softmax", epochs=20, min_count=1, subsample=0.0, progress=False
).fit(text)
# Predicted words are the paper's w, the words of the context its c.
codes = [text.vocabulary.index[word] for word in counted.words]
vectors = Factors(
    small.output_vectors_[codes].astype(float), small.input_vectors_[codes].astype(float)
)
fitted = analogy_errors(vectors, counted, questions)
figure, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
names = [f"{a}:{b} = {c}:{d}" for a, b, c, d in questions.questions]
for number, term in enumerate(TERMS):
    axes.barh(np.arange(4) + 0.2 * number, fitted.shares[:, number], height=0.2, label=term)
axes.set(yticks=np.arange(4) + 0.3, yticklabels=names, xlabel="share of the gap")
axes.legend()
plt.show()

# %%
# Which embeddings are found again
# --------------------------------
#
# Two fits that differ in their seed have the same conditionals in the limit of much data. Then
# their context embeddings are the same up to one affine map, and its inverse carries their items.
# Here baskets are drawn from attention itself. What the theorem says comes true as baskets grow in
# number; with items' names shuffled it does not.

process = draw_attention_process(20, dim=4, seed=0)
held_out = process.draw(300, length=10, seed=99)
sizes, alike = (50, 200, 800), {"contexts": [], "centers": [], "contexts, shuffled items": []}
for size in sizes:
    fits = [
        EFA(
            base="none", direction="causal", embed_dim=4, n_layers=1, connection="residual",
            support="none", dropout=0.0, weight_decay=0.0, learning_rate=0.03, batch_size=16,
            patience=1000, max_epochs=4_000 // size + 10, seed=seed, progress=False,
        ).fit(process.draw(size, length=10, seed=1)).members_[0]
        for seed in (0, 1)
    ]  # fmt: skip
    first, second = (item_embeddings(each, held_out) for each in fits)
    found = align(first, second)
    shuffled = item_embeddings(fits[1], held_out, names=shuffled_names(20, seed=0))
    alike["contexts"].append(np.mean(found.context))
    alike["centers"].append(np.mean(found.center_effect))
    alike["contexts, shuffled items"].append(np.mean(align(first, shuffled).context))
figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
for name, curve in alike.items():
    axes.semilogx(sizes, curve, marker="o", label=name)
axes.set(xlabel="training groups", ylabel="share of variance explained", ylim=(-0.05, 1.05))
axes.legend()
plt.show()

# %%
# For values the theorem fails where embeddings have two dimensions or more: these two have the same
# distribution, and no linear map takes one to the other. Only the mean, a number, is identified.

print(check_values(*value_counterexample(np.linspace(-1.0, 2.0, 9))))

# %%
# How much data a model needs
# ---------------------------
#
# Theorem 2 is about ReLU attention with clipped values and no layer norm, and about nothing else.
# Fits to F maps drawn from a known model of that class lose less the larger F is. The theorem has a
# rate of F to the power -1/2 with an unknown constant, so that slopes can be compared, heights not.

known = known_clipped_field(SIZES, attraction=ATTRACTION, repulsion=REPULSION, column="value")
maps = simulated_maps(1_000, seed=99)
n_groups, excess = (32, 128, 512), []
for n in n_groups:
    train = simulated_maps(n, seed=n)
    starts = [
        known,
        ClippedFieldNetwork(
            SIZES, column="value", generator=torch.Generator().manual_seed(n)
        ).double(),
    ]
    best = least_loss_fit(starts, train, n_steps=60, norm_bound=15.0)
    excess.append(measure_fit(best, known, train=train, held_out=maps).excess)
figure, axes = plt.subplots(figsize=(7.6, 4.2), layout="constrained")
axes.loglog(n_groups, excess, marker="o", label="ReLU attention")
rate = excess[0] * (np.array(n_groups) / n_groups[0]) ** -0.5
axes.loglog(n_groups, rate, "--", color="gray", label="slope of the rate term")
axes.set(xlabel="groups", ylabel="excess loss")
axes.legend()
plt.show()

# %%
# Of any other model the theorem says nothing, and neither does the function:

try:
    model_class(EFA(base="none", max_epochs=1, progress=False).fit(held_out))
except ExfamError as error:
    print(error)
