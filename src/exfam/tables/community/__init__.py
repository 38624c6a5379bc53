"""Communities: many species at sites, each given covariates and any of the others."""

from exfam.tables.community.community import Community

__all__ = ["Community"]
