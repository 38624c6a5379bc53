"""Compiled inner loops: word pairs counted, word vectors updated, rows sent through trees,
factor models of values.
"""
