"""Tests of what users test with: the embedded broker and the pytest plugin."""
