"""Contenders of communities: presence of each species from covariates and from other species."""
