"""Spark prepares what one machine cannot: data frames become prepared folders. Extra: exfam[spark].

`prepare` is to a Spark data frame what `exfam.prepare` is to a file, and writes the same bytes.
"""

from exfam.spark.frames import prepare_with_spark as prepare

__all__ = ["prepare"]
