"""`barnabas bench`: rates and latencies of a cluster, or of two side by side.

`commands` has the options, `measurements` what is measured, `latencies` percentiles, `report` the tables and charts.
"""
