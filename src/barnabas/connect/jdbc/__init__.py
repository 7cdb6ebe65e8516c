"""JDBC databases: connections through the driver (`connection`) and SQL (`statements`)."""
