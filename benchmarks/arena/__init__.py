"""The arena: exfam's defaults beside strong rivals on many data sets, by one protocol.

    python -m benchmarks.arena                              # all data sets that are not too large
    python -m benchmarks.arena --only msweb epub --seeds 1
    python -m benchmarks.arena --only bfi bci_trees         # ratings, counts
    python -m benchmarks.arena --only sepsis_gaps           # sequences with gaps
    python -m benchmarks.arena --only october october_new   # fields
    python -m benchmarks.arena --only october_ahead         # forecasts of fields
    python -m benchmarks.arena --only october_impute        # imputation of fields
    python -m benchmarks.arena --only penguins wine         # tables
    python -m benchmarks.arena --contenders efa ease popularity
    python -m benchmarks.arena --page out/arena/arena.md    # tables and a plot of what is there

Every fit is a process of one thread, and leaves one file of JSON under `out/arena`; what is there
is not fitted again. Data sets are read from the folder that EXFAM_DATA names.

Items of the test groups that training lacks are left out of all groups, for all contenders alike,
and counted. What a contender chooses, it chooses by nats on the validation groups; models in
closed form are then fitted to the training and validation groups together, and exfam's estimators
get both, of which they hold out a tenth. Differences are to `EFA()`, of fields to what headers
name, with standard errors by test group; positive ones say that EFA, or the other, is better.

Sets, sequences, and gaps, which are elements of sequences given those on both sides: nats are those
of the exact distribution of the next or missing item, over all items but those of the context where
no group repeats an item, else over all. Contenders that give scores only get nats from the softmax
of their scores times one number, plus the log of popularity times another where that helps, both
fitted on validation: tables mark them. Recall and NDCG are of all elements of sets and gaps, and of
the last one of each sequence, as is usual for recommendations. Last elements are unlike others
where sequences end for a reason, as hospital stays do.

Ratings and counts: each value of a test group is predicted from all its other values, or from the
earlier ones, also where a data set's own split is within groups. Nats are those of the exact log
density of real values, and log mass of ordinal values and counts. Squared errors are those of the
mean, of counts those of log(1 + y) and the distribution's mean of it. The share of values in
central intervals of 80 % has randomized ends where values are discrete: the truth has 80 %.
Contenders that give scores only are chosen by their squared error after a line, and get nats from a
head of few numbers fitted on validation, which tables name: a Student t about the score, of counts
one of the logarithm, rounded, and of ordinal values the thresholds of a logistic distribution.

Fields: values at sites, map after map, split by time. Of a data set X, `X` is each value of a test
map given all others of it; `X_lag` also given all of the map one step before; `X_new` has every
site once as new, in nine folds: no value of its sites is in training, and they are predicted from
the others of the map; `X_gaps` hides 30 % and then 60 % of every test map, and hidden values are
predicted from those shown. Nats are those of the exact log density of the values, or of the
logarithms that remarks name; fewer are better. Contenders "of amounts" see the amounts themselves,
zeros among them, and have the exact density of the same logarithms. Standard errors are by blocks
of consecutive times, the same for all contenders and folds.

Forecasts: of a field X, `X_ahead` is all maps of several steps to come, from starts in the test
part, given all values up to a start. exfam draws a hundred futures, each map given those drawn
before it; others have normal distributions. CRPS is the continuous ranked probability score, in
the unit of the value, and of draws the fair one, whose mean does not depend on their number, as
squared errors of their means do not either. Tables are in the order of CRPS.

Imputations: of a field X, `X_impute` is one panel of its last maps, from which all contenders learn
and whose hidden values they fill in: a tenth, two fifths and four fifths of the values at random,
two fifths of every site's runs of ten times, and of every site one outage of two fifths of the
time. Settings, and the spread of contenders that give scores only, are learned from a tenth of the
shown values, hidden in the same way. Tables are in the order of CRPS.

Tables: a label or a number of a row, predicted from its other cells, by a random fifth of the rows
as test unless remarks say otherwise. Each contender is judged on the same test rows five times:
complete, with 10, 30 and 50 % of their cells missing at random, and without a third of the columns;
which are missing is drawn once. Nats are those of the exact probability of the label, or log
density of the number in its own unit; "error" is the share of wrong labels, of numbers the squared
error of the mean in units of that of the training mean. exfam has one fit for all five. Rivals
choose settings, the scale of a number (itself, its square root or logarithm), the temperature of
labels and a Student t about numbers on a fifth of the training rows, of at most 1,000 rows on each
fifth in turn, and are then fitted to all. For missing cells they are also fitted to rows with cells
dropped, and for missing columns to the other columns alone: for each of the five, held-out rows
with the same cells missing choose the fit and the spread. Missing cells are left to packages that
take them, else they are filled in by the mean beside a column that marks them. TabPFN and TabICL
are not among the rivals: their weights are not at hand.
"""
