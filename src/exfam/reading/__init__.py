"""Files, frames and queries as Groups, through DuckDB."""
