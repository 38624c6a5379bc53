"""Networks with `.eta(batch)`, and the two-part model that every fit is."""
