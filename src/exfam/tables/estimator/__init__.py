"""What estimators of tables share: parameters, reading what a fit is given, fitting, saving.

`base.TableEstimator` reads, fits and saves; `joint.JointTable` adds the questions to a fitted
table, `supervised.SupervisedTable` a response. A fit reads what it is given (`given`), learns the
columns and their families (`plan`, `column_families`), chooses a recipe by rows held out (`choice`)
and trains (`training`).
"""
