//! PostgreSQL wire protocol over `gnomon-sql`.
