"""The papers' tables, figures and theorems, recomputed with exfam."""
