"""JSON Web Tokens: verification and the key sets that sign them."""
