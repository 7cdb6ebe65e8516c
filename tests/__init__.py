"""Tests mirror `src/barnabas`; helpers that start real counterparts live beside this file."""
