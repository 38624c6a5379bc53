"""Spark prepares what one machine cannot: data frames and texts. Extra: exfam[spark].

`prepare` is to a Spark data frame what `exfam.prepare` is to a file, and writes the same bytes.
`count_words` and `count_pairs` are of its texts what word models count of files.
"""

from exfam.spark.frames import prepare_with_spark as prepare
from exfam.spark.texts import count_pairs, count_words

__all__ = ["count_pairs", "count_words", "prepare"]
