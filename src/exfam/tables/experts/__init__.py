"""A fitted table as a mixture of experts: weights and contributions of cells."""
