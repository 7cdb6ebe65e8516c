"""Databases through JDBC: connections of the driver (`connection`), and the SQL that they are sent (`statements`)."""
