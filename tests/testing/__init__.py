"""Tests of the testing package: the embedded broker and the pytest plugin."""
