"""`python -m exfam_studies.common.documentation` writes all tables into their pages."""

from exfam_studies.common.documentation import write_tables

if __name__ == "__main__":
    write_tables()
