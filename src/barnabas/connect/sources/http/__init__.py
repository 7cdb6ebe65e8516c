"""Rows of a JSON endpoint, polled with a cursor.

source   settings in NAME.yml
reader   requests, and staging of the rows
pages    parses responses to rows and the next cursor
"""
