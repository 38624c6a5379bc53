"""Questions to a fitted table: conditionals, joint probability, imputation, samples."""
