"""What connectors read. A module does not import pyspark before it is used."""
