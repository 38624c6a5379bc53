"""A user's columns as Arrow arrays, by one set of rules for frames, files and queries.

- Text is `large_string`, whatever held it: other texts of Arrow, dictionaries, categories, objects.
  Text that UTF-8 cannot write, and names of columns with a NUL, are refused.
- Missing is null: None, NaN, NaT, pandas' NA. Only values and cells of tables may be missing.
- Labels are text, whole numbers and booleans; floats and decimals that are whole count as such
  numbers, since pandas makes floats of whole numbers with gaps. Times are labels of groups alone.
- Whole numbers stay exact. Where they become floats they must be at most 2**53 in size.
- Moments are microseconds since 1970 in UTC; a moment without a zone counts as UTC.
- Text in a column of times or of an order is read by one format for the whole column.
- A column of values of several types is refused, and so are two columns of one name.
"""
