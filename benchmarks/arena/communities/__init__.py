"""Communities: each species at a site from its covariates and a share of the other species."""
