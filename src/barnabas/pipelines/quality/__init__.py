"""Quality rules as Spark columns: rows are counted, dropped, refused or set aside by what a rule says of them."""
