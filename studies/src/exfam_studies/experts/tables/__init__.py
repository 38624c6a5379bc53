"""Models that predict a column of a table whose test rows are of another kind than those fitted.

Tables of codes (`table-simulation`, `table-autompg`) and public tables with a shift of their own
(`table-shifts`) are one kind of data, `TableShift`; a model is a function from a table and
a seed to what it predicts (`predictions`), and is listed by its name (`models`). A task (`coded`,
`table_shifts`) says which tables there are and how its rows look; `fits` fits every model once and
keeps the losses of the test rows.
"""
