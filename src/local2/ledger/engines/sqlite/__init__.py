"""SQLite, in one file for all tenants, or in an encrypted one of a tenant."""
