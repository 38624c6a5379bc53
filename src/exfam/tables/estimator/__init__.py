"""What estimators of tables share: parameters, reading what a fit is given, fitting, saving."""
