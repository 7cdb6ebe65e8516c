"""Rows of a JSON endpoint that is asked again and again, each time from where the last answer ended.

source   what NAME.yml says
reading  questions, and rows to where Spark streams them from
pages    answers to rows and to the next cursor
"""
