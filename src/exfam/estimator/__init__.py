"""Estimators: parameters, the registry, saving, evaluation of fitted members."""
