"""Fields: values at places and times, each predicted from the others on its map and before."""
