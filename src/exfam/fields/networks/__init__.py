"""Parts that predict each value of a map from the others on it and on the maps before."""
