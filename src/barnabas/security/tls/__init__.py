"""TLS on both sides: key stores, contexts, and who a certificate names."""
