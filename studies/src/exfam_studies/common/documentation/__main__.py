"""`python -m exfam_studies.common.documentation` writes all tables into their pages."""

from exfam_studies.common.documentation import BLOCKS

if __name__ == "__main__":
    for block in BLOCKS:
        block.write()
