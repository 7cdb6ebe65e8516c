"""JSON Web Tokens: verification, and the key sets of identity providers."""
