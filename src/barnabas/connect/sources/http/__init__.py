"""Rows of a JSON endpoint that is asked again and again, each time from where the last answer ended.

source   settings in NAME.yml
reader   requests, and rows staged for Spark's stream
pages    responses to rows and to the next cursor
"""
