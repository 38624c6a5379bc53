"""The base of fields: what a good statistician would fit, in closed form or nearly.

Normal courses by site, a moving kernel, the empirical covariance shrunk to it, and multivariate
Student t conditionals of each value given the others that are shown.
"""
