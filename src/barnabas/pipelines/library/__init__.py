"""Ready pipelines: folders that `barnabas pipeline init --template NAME` copies, with generators of their data."""
