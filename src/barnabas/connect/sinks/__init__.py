"""What connectors write, each row exactly once by the means that the other side has. A module does not import pyspark
before it is used."""
