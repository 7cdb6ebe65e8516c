"""Public path of `ddl.parse_ddl`, for pipeline folders."""
